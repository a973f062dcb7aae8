//! Runs a coroutine that does not suspend.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Runs a coroutine that blocks instead of suspending, and returns its result; see `callers.run`.
#[pyfunction]
pub fn run<'py>(call: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = call.py();
    let mut result = std::ptr::null_mut();
    // SAFETY: both objects are alive during the call, and `result` is a new reference unless it is
    // null.
    let (sent, result) = unsafe {
        let sent = ffi::PyIter_Send(call.as_ptr(), ffi::Py_None(), &raw mut result);
        (sent, Bound::from_owned_ptr_or_opt(py, result))
    };
    match (sent, result) {
        (ffi::PySendResult::PYGEN_RETURN, Some(result)) => Ok(result),
        (ffi::PySendResult::PYGEN_ERROR, _) => Err(PyErr::fetch(py)),
        _ => {
            call.call_method0(pyo3::intern!(py, "close"))?;
            let text = format!("{} suspended; only an event loop can run it", call.repr()?);
            Err(PyRuntimeError::new_err(text))
        }
    }
}
