//! Ending a wait for sockets from another thread or a signal handler.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use mio::{Token, Waker};

/// The token of the waker; connections are numbered from 1.
pub const TOKEN: Token = Token(0);

/// Only the first of several calls makes a system call, and only during a poll.
pub struct Wake {
    woken: AtomicBool,
    nudged: AtomicBool,
    polling: AtomicBool,
    /// The engine owns the waker, so a closed engine leaves no file descriptor open.
    waker: Weak<Waker>,
}

impl Wake {
    pub fn new(waker: Weak<Waker>) -> Self {
        Wake {
            woken: AtomicBool::new(false),
            nudged: AtomicBool::new(false),
            polling: AtomicBool::new(false),
            waker,
        }
    }

    pub fn wake(&self) {
        self.raise(&self.woken);
    }

    /// Ends the wait, but not the poll of Python: a standing fetch that waits for room may continue.
    pub fn nudge(&self) {
        self.raise(&self.nudged);
    }

    fn raise(&self, flag: &AtomicBool) {
        if !flag.swap(true, SeqCst)
            && self.polling.load(SeqCst)
            && let Some(waker) = self.waker.upgrade()
        {
            let _ = waker.wake(); // cannot be handled; the poll ends at its timeout
        }
    }

    /// Forgets a nudge; the caller then looks for standing fetches that may continue.
    pub fn take_nudge(&self) {
        self.nudged.store(false, SeqCst);
    }

    pub fn ends_wait(&self) -> bool {
        self.woken.load(SeqCst) || self.nudged.load(SeqCst)
    }

    /// Must precede the first call of `ends_wait`. A concurrent `wake` then either sees the flag
    /// and wakes the poll, or is early enough for `ends_wait`.
    pub fn begin(&self) {
        self.polling.store(true, SeqCst);
    }

    /// Ends what `begin` began; returns whether `wake` was called.
    pub fn end(&self) -> bool {
        self.polling.store(false, SeqCst);
        self.woken.swap(false, SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nudge_ends_the_wait_but_not_the_poll_of_python() {
        let wake = Wake::new(Weak::new());
        wake.nudge();
        wake.begin();
        assert!(wake.ends_wait());
        assert!(!wake.end());
        assert!(wake.ends_wait(), "until an standing has been looked for");
        wake.take_nudge();
        assert!(!wake.ends_wait());
        wake.wake();
        assert!(wake.ends_wait());
        assert!(wake.end());
        assert!(!wake.ends_wait());
    }
}
