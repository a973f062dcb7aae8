//! Wakes the threads of the application, from any thread, with or without the GIL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use pyo3::prelude::*;

/// A count, and the number of threads that wait for it to change.
#[derive(Default)]
pub struct Count {
    value: AtomicU32,
    waiting: AtomicU32,
}

impl Count {
    /// Changes the count, and wakes all waiting threads.
    pub fn ring(&self) {
        self.value.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            system::wake(&self.value);
        }
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
/// misses no change.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Bell(pub Arc<Count>);

#[pymethods]
impl Bell {
    #[new]
    fn new() -> Self {
        Bell(Arc::default())
    }

    /// Wakes the waiting threads; callable from any thread and from a signal handler. Returns
    /// whether any thread waits.
    fn ring(&self) -> bool {
        let waiting = self.0.waiting.load(SeqCst) > 0;
        self.0.ring();
        waiting
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
