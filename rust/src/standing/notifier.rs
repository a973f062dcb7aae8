//! Wakes the threads and tasks of the application, from any thread, with or without the GIL.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::standing::alarm::Alarm;

/// How often a waiting thread looks again; `_RECHECK_S` in runtime/driver.py.
const RECHECK: Duration = Duration::from_millis(250);

/// A count, and what waits for it to change: a number of threads, and the tasks of an event loop.
#[derive(Default)]
pub struct Count {
    value: AtomicU32,
    waiting: AtomicU32,
    /// True if a task waits. The next notification resets it.
    armed: AtomicBool,
    /// Wakes the event loop.
    alarm: Mutex<Option<Alarm>>,
}

impl Count {
    /// Changes the count, and wakes all waiting threads and tasks. Returns whether any waited.
    pub fn notify(&self) -> bool {
        self.value.fetch_add(1, SeqCst);
        let threads = self.waiting.load(SeqCst) > 0;
        if threads {
            system::wake(&self.value);
        }
        // Invariant: a task arms this before it checks its condition. It therefore either sees a
        // change made before this call, or is armed here.
        let tasks = self.armed.load(SeqCst) && self.armed.swap(false, SeqCst);
        if tasks {
            // Invariant: this waits for nobody, because a fork may copy a locked lock. Another
            // caller that holds it makes the file readable, and `quiet` comes before the tasks
            // check their conditions.
            self.with_alarm(Alarm::notify);
        }
        threads || tasks
    }

    fn with_alarm(&self, work: impl FnOnce(&Alarm)) {
        if let Ok(alarm) = self.alarm.try_lock()
            && let Some(alarm) = &*alarm
        {
            work(alarm);
        }
    }

    fn set_alarm(&self, alarm: Option<Alarm>) {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = alarm;
    }

    fn wait(&self, seen: u32, timeout: Duration) {
        self.waiting.fetch_add(1, SeqCst);
        if self.value.load(SeqCst) == seen {
            system::wait(&self.value, seen, timeout);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// A count that threads wait for. A thread reads it before it checks its condition, so that it
/// misses no change. Tasks of one event loop can wait as well: the loop watches a file descriptor.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Notifier(pub Arc<Count>);

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> Self {
        Notifier(Arc::default())
    }

    /// Wakes the waiting threads and tasks; callable from any thread and from a signal handler.
    /// Returns whether any waited.
    fn notify(&self) -> bool {
        self.0.notify()
    }

    /// Returns a file descriptor that becomes readable at the first `notify` after `arm`. Raises an
    /// OSError if this system has none.
    fn open_alarm(&self) -> io::Result<i32> {
        let alarm = Alarm::new()?;
        let descriptor = alarm.descriptor();
        self.0.set_alarm(Some(alarm));
        Ok(descriptor)
    }

    /// Closes the file descriptor.
    fn close_alarm(&self) {
        self.0.armed.store(false, SeqCst);
        self.0.set_alarm(None);
    }

    /// Before a task checks its condition: the next notification makes the file descriptor readable.
    fn arm(&self) {
        self.0.armed.store(true, SeqCst);
    }

    /// No task waits any more.
    fn disarm(&self) {
        self.0.armed.store(false, SeqCst);
    }

    /// Makes the file descriptor unreadable again; the conditions must be checked afterwards.
    fn quiet(&self) {
        self.0.with_alarm(Alarm::quiet);
    }

    /// The number of waiting threads.
    #[getter]
    fn waiting(&self) -> u32 {
        self.0.waiting.load(SeqCst)
    }

    #[getter]
    fn count(&self) -> u32 {
        self.0.value.load(SeqCst)
    }

    /// Blocks while the count is `seen`, up to `timeout_s`. A signal ends the wait.
    fn wait(&self, py: Python<'_>, seen: u32, timeout_s: f64) -> PyResult<()> {
        let timeout = Duration::try_from_secs_f64(timeout_s).unwrap_or(Duration::ZERO);
        py.detach(|| self.0.wait(seen, timeout));
        py.check_signals()
    }
}

impl Notifier {
    /// Blocks until `over` is true or the time has passed. Signal handlers run meanwhile.
    pub fn wait_until(
        &self,
        py: Python<'_>,
        timeout: Duration,
        over: impl Fn() -> PyResult<bool>,
    ) -> PyResult<()> {
        let end = Instant::now() + timeout;
        loop {
            // Read before the condition, so that no change is missed.
            let seen = self.0.value.load(SeqCst);
            let left = end.saturating_duration_since(Instant::now());
            if over()? || left.is_zero() {
                return Ok(());
            }
            py.detach(|| self.0.wait(seen, left.min(RECHECK)));
            py.check_signals()?;
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// Waits while the value is `seen`. Returns early after a signal, which std's futex hides.
    pub fn wait(value: &AtomicU32, seen: u32, timeout: Duration) {
        let limit = libc::timespec {
            tv_sec: timeout.as_secs().min(3600) as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the addresses are valid during the call.
        unsafe {
            libc::syscall(libc::SYS_futex, value.as_ptr(), operation, seen, ptr::from_ref(&limit));
        }
    }

    pub fn wake(value: &AtomicU32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the address is valid during the call.
        unsafe {
            libc::syscall(libc::SYS_futex, value.as_ptr(), operation, i32::MAX);
        }
    }
}

/// Elsewhere, a signal is seen at the end of a short wait.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    const LONGEST: Duration = Duration::from_millis(50);
    static LOCK: Mutex<()> = Mutex::new(());
    static CHANGED: Condvar = Condvar::new();

    pub fn wait(value: &AtomicU32, seen: u32, timeout: Duration) {
        let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        if value.load(SeqCst) == seen {
            let _ = CHANGED.wait_timeout(lock, timeout.min(LONGEST));
        }
    }

    pub fn wake(_value: &AtomicU32) {
        // No lock: a signal handler may call this. A wakeup that is missed costs `LONGEST`.
        CHANGED.notify_all();
    }
}
