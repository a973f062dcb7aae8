//! Objects of Python classes, without their constructors.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A new object of a class whose base is `object` and whose constructor does nothing but store its
/// arguments, which the caller stores instead. No Python code runs.
pub fn bare<'py>(kind: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the type is alive; the function ignores its other arguments and returns a new object,
    // or null with an exception.
    unsafe {
        let made = ffi::PyType_GenericNew(kind.as_type_ptr(), ptr::null_mut(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(kind.py(), made)
    }
}
