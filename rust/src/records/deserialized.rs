//! Records with keys and values from the user's deserializers.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::batches::Columns;
use crate::records::maker::{Maker, headers_of, key_of, value_of};
use crate::records::sequence::Records;

/// A deserializer of the user; a full one also receives topic and headers.
pub type Function<'py> = Option<(Bound<'py, PyAny>, bool)>;

/// The exception of a deserializer, and its subject: "key" or "value".
pub type Failure = (&'static str, Py<PyAny>);

/// Deserialize records one by one, and append each to `done`.
///
/// Returns None, or the failure of a deserializer. It concerns the record after the last of `done`.
/// A `BaseException` such as an interrupt is raised.
#[pyfunction]
pub fn deserialize<'py>(
    records: &Bound<'py, Records>,
    key: Function<'py>,
    value: Function<'py>,
    done: &Bound<'py, PyList>,
) -> PyResult<Option<Failure>> {
    let py = records.py();
    let rows = records.get().fresh_rows(py)?;
    let mut maker = Maker::new(py, Arc::clone(&rows.owner))?;
    let topic = rows.owner.topic.bind(py).as_any();
    for piece in &rows.pieces {
        for row in piece.start..piece.stop {
            match parts_of(py, &piece.columns, row, topic, [&key, &value])? {
                Ok(parts) => done.append(maker.make_with(py, &piece.columns, row, parts)?)?,
                Err(failure) => return Ok(Some(failure)),
            }
        }
    }
    Ok(None)
}

/// The key, the value and the headers of a record.
pub fn parts_of<'py>(
    py: Python<'py>,
    columns: &Columns,
    row: usize,
    topic: &Bound<'py, PyAny>,
    functions: [&Function<'py>; 2],
) -> PyResult<Result<[Py<PyAny>; 3], Failure>> {
    let headers = headers_of(py, columns, row)?.into_bound(py);
    let key = match call(functions[0], topic, &headers, key_of(py, columns, row)) {
        Ok(key) => key,
        Err(error) => return failed(py, "key", error),
    };
    let value = match call(functions[1], topic, &headers, value_of(py, columns, row)) {
        Ok(value) => value,
        Err(error) => return failed(py, "value", error),
    };
    Ok(Ok([key, value, headers.unbind()]))
}

fn call<'py>(
    function: &Function<'py>,
    topic: &Bound<'py, PyAny>,
    headers: &Bound<'py, PyAny>,
    data: Py<PyAny>,
) -> PyResult<Py<PyAny>> {
    let Some((function, full)) = function else { return Ok(data) };
    let end = std::ptr::null_mut::<ffi::PyObject>();
    // SAFETY: all arguments are alive, and the last one is null. The call returns a new reference, or
    // null with an exception. Unlike other ways to call an object, it needs no tuple.
    unsafe {
        let (call, function) = (ffi::PyObject_CallFunctionObjArgs, function.as_ptr());
        let made = if *full {
            call(function, topic.as_ptr(), headers.as_ptr(), data.as_ptr(), end)
        } else {
            call(function, data.as_ptr(), end)
        };
        Bound::from_owned_ptr_or_err(topic.py(), made).map(Bound::unbind)
    }
}

fn failed<T>(py: Python<'_>, origin: &'static str, error: PyErr) -> PyResult<Result<T, Failure>> {
    if error.is_instance_of::<PyException>(py) {
        Ok(Err((origin, error.into_value(py).into_any())))
    } else {
        Err(error)
    }
}
