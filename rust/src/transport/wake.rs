//! Ending a poll from another thread or a signal handler.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use mio::{Token, Waker};

/// The token of the waker; connections are numbered from 1.
pub const TOKEN: Token = Token(0);

/// Only the first of several calls costs a system call, and only while somebody polls.
pub struct Wake {
    woken: AtomicBool,
    polling: AtomicBool,
    /// The engine owns it: a closed engine leaves no file descriptor behind.
    waker: Weak<Waker>,
}

impl Wake {
    pub fn new(waker: Weak<Waker>) -> Self {
        Wake { woken: AtomicBool::new(false), polling: AtomicBool::new(false), waker }
    }

    pub fn wake(&self) {
        if !self.woken.swap(true, SeqCst)
            && self.polling.load(SeqCst)
            && let Some(waker) = self.waker.upgrade()
        {
            let _ = waker.wake(); // nothing can be done, and the poll's time ends by itself
        }
    }

    /// Called before `is_woken` is asked for the first time: a `wake` that comes in between
    /// either finds this set and wakes, or has been early enough to be seen.
    pub fn begin(&self) {
        self.polling.store(true, SeqCst);
    }

    pub fn is_woken(&self) -> bool {
        self.woken.load(SeqCst)
    }

    /// The poll returns, which is what those who woke it wanted.
    pub fn end(&self) {
        self.polling.store(false, SeqCst);
        self.woken.store(false, SeqCst);
    }
}
