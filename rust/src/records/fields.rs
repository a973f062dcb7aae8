//! The items of a new tuple, written where they are.
//!
//! `PyTuple_SetItem` looks at the tuple for each of them, which a record with its 13 fields feels.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// Where the items of a tuple begin; an error if they are not where they are in CPython.
static BEGIN: PyOnceLock<usize> = PyOnceLock::new();

/// Makes tuples of a class that has no fields beside its items.
pub struct Tuples {
    class: Py<PyType>,
    begin: usize,
    /// What stands before the items where tuples keep their hash, as of Python 3.14.
    unhashed: Option<isize>,
}

impl Tuples {
    pub fn of(py: Python<'_>, class: &Bound<'_, PyType>) -> PyResult<Self> {
        let begin = *BEGIN.get_or_try_init(py, || find_begin(py))?;
        let keeps_hash = begin > size_of::<ffi::PyVarObject>();
        let unhashed = keeps_hash.then_some(-1);
        Ok(Tuples { class: class.clone().unbind(), begin, unhashed })
    }

    /// Makes a tuple of new references; one that is not tracked costs the garbage collection
    /// nothing, and cannot be found in a cycle.
    pub fn make<const N: usize>(
        &self,
        py: Python<'_>,
        items: [Py<PyAny>; N],
        tracked: bool,
    ) -> PyResult<Py<PyAny>> {
        // SAFETY: so many items are allocated, and are null. No Python code runs before they are
        // set: nobody sees the tuple without them.
        unsafe {
            let class = self.class.as_ptr().cast::<ffi::PyTypeObject>();
            let made = ffi::PyType_GenericAlloc(class, N as ffi::Py_ssize_t);
            let tuple: Py<PyAny> = Bound::from_owned_ptr_or_err(py, made)?.unbind();
            let fixed = size_of::<ffi::PyVarObject>();
            if let Some(unhashed) = self.unhashed {
                *made.byte_add(fixed).cast::<isize>() = unhashed;
            }
            let place = self.place(&tuple, 0);
            for (index, item) in items.into_iter().enumerate() {
                *place.add(index) = item.into_ptr();
            }
            if !tracked {
                ffi::PyObject_GC_UnTrack(made.cast());
            }
            Ok(tuple)
        }
    }

    /// Replaces an item.
    ///
    /// # Safety
    ///
    /// The tuple was made here, has such an item, and nobody but the caller holds it. Dropping the
    /// old item runs no Python code.
    pub unsafe fn replace(&self, py: Python<'_>, tuple: &Py<PyAny>, index: usize, item: Py<PyAny>) {
        // SAFETY: the caller's promise; the tuple owns the old item, and the new one from now on.
        unsafe {
            let old = std::mem::replace(&mut *self.place(tuple, index), item.into_ptr());
            drop(Bound::from_owned_ptr(py, old));
        }
    }

    /// An item, borrowed.
    ///
    /// # Safety
    ///
    /// The tuple was made here, and has such an item.
    pub unsafe fn item(&self, tuple: &Py<PyAny>, index: usize) -> *mut ffi::PyObject {
        // SAFETY: the caller's promise.
        unsafe { *self.place(tuple, index) }
    }

    /// # Safety
    ///
    /// As for `item`.
    unsafe fn place(&self, tuple: &Py<PyAny>, index: usize) -> *mut *mut ffi::PyObject {
        // SAFETY: the items are behind each other; `find_begin` has looked where.
        unsafe { tuple.as_ptr().byte_add(self.begin).cast::<*mut ffi::PyObject>().add(index) }
    }
}

/// Looks at a tuple whose items are known.
fn find_begin(py: Python<'_>) -> PyResult<usize> {
    let class = py.get_type::<PyTuple>();
    let begin: usize = class.getattr("__basicsize__")?.extract()?;
    let size: usize = class.getattr("__itemsize__")?.extract()?;
    let probe = PyTuple::new(py, [begin, size])?;
    let word = size_of::<*mut ffi::PyObject>();
    let fixed = size_of::<ffi::PyVarObject>();
    let fits = size == word && (begin == fixed || begin == fixed + word);
    // SAFETY: a tuple of two items has at least so much memory behind its fixed part.
    let found = fits.then(|| unsafe {
        let items = probe.as_ptr().byte_add(begin).cast::<*mut ffi::PyObject>();
        [*items, *items.add(1)]
    });
    if found == Some([probe.get_item(0)?.as_ptr(), probe.get_item(1)?.as_ptr()]) {
        Ok(begin)
    } else {
        let text = "this Python keeps the items of a tuple in another place: set \
                    TANDEM_KAFKA_IMPL=python";
        Err(pyo3::exceptions::PySystemError::new_err(text))
    }
}
