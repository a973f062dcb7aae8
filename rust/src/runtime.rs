//! What calls need to know of the process: its coroutines, its clock, and whether it was forked.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::slots::slots;

/// Of a clock that counts nanoseconds.
pub const NANOS_PER_MS: i64 = 1_000_000;

slots!(Process { pid });

/// What knows the id of this process; a fork changes it.
pub struct ThisProcess {
    slots: Process,
    object: Py<PyAny>,
}

impl ThisProcess {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(ThisProcess { slots: Process::of(&object.get_type())?, object: object.clone().unbind() })
    }

    pub fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    /// Whether this is the object of its id.
    pub fn is(&self, pid: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.slots.pid.is(self.object.bind(pid.py()), pid)
    }
}

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
