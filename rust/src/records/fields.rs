//! Writes the items of a new tuple directly to its memory.
//!
//! `PyTuple_SetItem` checks the tuple for each item, which is slow for records with 13 fields.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// The position of the items in a tuple; an error if the layout is not CPython's.
static BEGIN: PyOnceLock<usize> = PyOnceLock::new();

/// Creates tuples of a class without fields other than its items.
pub struct Tuples {
    class: Py<PyType>,
    begin: usize,
    /// The field before the items if tuples cache their hash (Python 3.14).
    unhashed: Option<isize>,
}

impl Tuples {
    pub fn of(py: Python<'_>, class: &Bound<'_, PyType>) -> PyResult<Self> {
        let begin = *BEGIN.get_or_try_init(py, || find_begin(py))?;
        let keeps_hash = begin > size_of::<ffi::PyVarObject>();
        let unhashed = keeps_hash.then_some(-1);
        Ok(Tuples { class: class.clone().unbind(), begin, unhashed })
    }

    /// Creates a tuple that owns the references. An untracked tuple costs the garbage collector nothing,
    /// but the collector cannot find cycles through it.
    pub fn make<const N: usize>(
        &self,
        py: Python<'_>,
        items: [Py<PyAny>; N],
        tracked: bool,
    ) -> PyResult<Py<PyAny>> {
        // SAFETY: this number of items is allocated, and they are null. No Python code runs before
        // they are set, so the incomplete tuple is never visible.
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

    /// Replaces an item, and returns the old one.
    ///
    /// # Safety
    ///
    /// The tuple was created here and has such an item, and only the caller references it.
    pub unsafe fn replace(
        &self,
        py: Python<'_>,
        tuple: &Py<PyAny>,
        index: usize,
        item: Py<PyAny>,
    ) -> Py<PyAny> {
        // SAFETY: guaranteed by the caller. The tuple owns the old item, and takes the new one.
        unsafe {
            let old = std::mem::replace(&mut *self.place(tuple, index), item.into_ptr());
            Bound::from_owned_ptr(py, old).unbind()
        }
    }

    /// Borrows an item.
    ///
    /// # Safety
    ///
    /// The tuple was created here, and has such an item.
    pub unsafe fn item(&self, tuple: &Py<PyAny>, index: usize) -> *mut ffi::PyObject {
        // SAFETY: guaranteed by the caller.
        unsafe { *self.place(tuple, index) }
    }

    /// # Safety
    ///
    /// See `item`.
    unsafe fn place(&self, tuple: &Py<PyAny>, index: usize) -> *mut *mut ffi::PyObject {
        // SAFETY: the items are contiguous; `find_begin` has checked their position.
        unsafe { tuple.as_ptr().byte_add(self.begin).cast::<*mut ffi::PyObject>().add(index) }
    }
}

/// Finds the position in a tuple with known items.
fn find_begin(py: Python<'_>) -> PyResult<usize> {
    let class = py.get_type::<PyTuple>();
    let begin: usize = class.getattr("__basicsize__")?.extract()?;
    let size: usize = class.getattr("__itemsize__")?.extract()?;
    let probe = PyTuple::new(py, [begin, size])?;
    let word = size_of::<*mut ffi::PyObject>();
    let fixed = size_of::<ffi::PyVarObject>();
    let fits = size == word && (begin == fixed || begin == fixed + word);
    // SAFETY: a tuple of two items has at least this much memory after its fixed part.
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
