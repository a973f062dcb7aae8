//! The buffer protocol, for bytes that never change.

use std::ffi::c_int;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Exports bytes, read-only.
///
/// # Safety
///
/// `owner` must keep `bytes` alive and unchanged, at the same address.
pub unsafe fn fill_view<T>(
    owner: &Bound<'_, T>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("the buffer view is null"));
    }
    let length = bytes.len() as ffi::Py_ssize_t;
    // SAFETY: guaranteed by the caller; the view takes a reference to the owner.
    let filled = unsafe {
        ffi::PyBuffer_FillInfo(view, owner.as_ptr(), bytes.as_ptr() as *mut _, length, 1, flags)
    };
    if filled < 0 { Err(PyErr::fetch(owner.py())) } else { Ok(()) }
}
