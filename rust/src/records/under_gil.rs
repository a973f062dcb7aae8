//! State of Python objects that the GIL protects.

use std::cell::UnsafeCell;

use pyo3::prelude::*;

/// A value that is read and changed under the GIL, which the module asks for (`gil_used`).
pub struct UnderGil<T>(UnsafeCell<T>);

// SAFETY: `with` needs the GIL, and what it runs gives it up for nothing.
unsafe impl<T: Send> Sync for UnderGil<T> {}

impl<T> UnderGil<T> {
    pub fn new(value: T) -> Self {
        UnderGil(UnsafeCell::new(value))
    }

    /// Runs `work` on the value. It must run no Python code, nor drop an object that may be the
    /// last reference: that could come back here.
    pub fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the GIL is held until `work` ends, and `work` does not come back here.
        work(unsafe { &mut *self.0.get() })
    }

    /// The value, for the garbage collection, which holds the GIL and runs no Python code.
    pub fn for_traversal(&self) -> &T {
        // SAFETY: the collection does not run inside `with`, which makes no Python objects.
        unsafe { &*self.0.get() }
    }
}
