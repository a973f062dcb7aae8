//! State of Python objects that the GIL protects.

use std::cell::UnsafeCell;

use pyo3::prelude::*;

/// A value that is read and changed under the GIL, which the module requires (`gil_used`).
pub struct UnderGil<T>(UnsafeCell<T>);

// SAFETY: `with` requires the GIL, and `work` does not release it.
unsafe impl<T: Send> Sync for UnderGil<T> {}

impl<T> UnderGil<T> {
    pub fn new(value: T) -> Self {
        UnderGil(UnsafeCell::new(value))
    }

    /// Runs `work` on the value. `work` must not run Python code, nor drop what may be the last
    /// reference to an object: both could call this method again.
    pub fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the GIL is held until `work` ends, and `work` does not call this method again.
        work(unsafe { &mut *self.0.get() })
    }

    /// The value, for the garbage collector, which holds the GIL and runs no Python code.
    pub fn for_traversal(&self) -> &T {
        // SAFETY: the collector does not run inside `with`, which creates no Python objects.
        unsafe { &*self.0.get() }
    }
}
