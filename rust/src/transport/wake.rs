//! Ending a poll from another thread or a signal handler.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use mio::{Token, Waker};

/// The token of the waker; connections are numbered from 1.
pub const TOKEN: Token = Token(0);

/// Only the first of several calls makes a system call, and only during a poll.
pub struct Wake {
    woken: AtomicBool,
    polling: AtomicBool,
    /// The engine owns the waker, so a closed engine leaves no file descriptor open.
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
            let _ = waker.wake(); // cannot be handled; the poll ends at its timeout
        }
    }

    /// Must precede the first call of `is_woken`. A concurrent `wake` then either sees the flag and
    /// wakes the poll, or is early enough for `is_woken`.
    pub fn begin(&self) {
        self.polling.store(true, SeqCst);
    }

    pub fn is_woken(&self) -> bool {
        self.woken.load(SeqCst)
    }

    /// Resets the flags, because the poll returns; returns whether `wake` was called.
    pub fn end(&self) -> bool {
        self.polling.store(false, SeqCst);
        self.woken.swap(false, SeqCst)
    }
}
