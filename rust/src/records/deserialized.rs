//! Records with keys and values from the user's deserializers.

use std::sync::Arc;

use crate::batches::Columns;
use crate::records::maker::{Replaced, headers_of, key_of, value_of};
use crate::records::rows::Rows;
use crate::records::sequence::Records;
use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;

/// A deserializer of the user; a full one also receives topic and headers.
pub type Function<'py> = Option<(Bound<'py, PyAny>, bool)>;

/// The exception of a deserializer, and its subject: "key" or "value".
pub type Failure = (&'static str, Py<PyAny>);

/// Deserialize records one by one.
///
/// Returns the deserialized records, and None or the failure of a deserializer. It concerns the
/// record after them. A `BaseException` such as an interrupt is raised.
///
/// The records themselves are made when someone looks at them, and released by a loop, as any
/// others. With a whole batch of them alive, the garbage collector would run three times as often.
#[pyfunction]
pub fn deserialize<'py>(
    records: &Bound<'py, Records>,
    key: Function<'py>,
    value: Function<'py>,
) -> PyResult<(Records, Option<Failure>)> {
    let py = records.py();
    let rows = records.get().fresh_rows(py)?;
    let (done, failure) = deserialize_rows(py, &rows, [&key, &value])?;
    let rows = if failure.is_some() { Arc::new(rows.part(0, done.len())) } else { rows };
    Ok((Records::deserialized(rows, done), failure))
}

/// The same, of rows; returns what takes the place of their keys, values and headers.
pub fn deserialize_rows<'py>(
    py: Python<'py>,
    rows: &Rows,
    functions: [&Function<'py>; 2],
) -> PyResult<(Vec<Replaced>, Option<Failure>)> {
    let topic = rows.owner.topic.bind(py).as_any();
    let mut done = Vec::with_capacity(rows.len());
    for piece in &rows.pieces {
        for row in piece.start..piece.stop {
            match parts_of(py, &piece.columns, row, topic, functions)? {
                Ok(parts) => done.push(parts),
                Err(failure) => return Ok((done, Some(failure))),
            }
        }
    }
    Ok((done, None))
}

/// The key, the value and the headers of a record, where they are not as received.
pub fn parts_of<'py>(
    py: Python<'py>,
    columns: &Columns,
    row: usize,
    topic: &Bound<'py, PyAny>,
    functions: [&Function<'py>; 2],
) -> PyResult<Result<Replaced, Failure>> {
    let full = functions.into_iter().flatten().any(|(_, full)| *full);
    let headers = if full { Some(headers_of(py, columns, row)?) } else { None };
    let mut replaced = Replaced { headers, ..Replaced::default() };
    if let Some(function) = functions[0] {
        match call(function, topic, &replaced.headers, key_of(py, columns, row)) {
            Ok(key) => replaced.key = Some(key),
            Err(error) => return failed(py, "key", error),
        }
    }
    if let Some(function) = functions[1] {
        match call(function, topic, &replaced.headers, value_of(py, columns, row)) {
            Ok(value) => replaced.value = Some(value),
            Err(error) => return failed(py, "value", error),
        }
    }
    Ok(Ok(replaced))
}

fn call<'py>(
    (function, full): &(Bound<'py, PyAny>, bool),
    topic: &Bound<'py, PyAny>,
    headers: &Option<Py<PyAny>>,
    data: Py<PyAny>,
) -> PyResult<Py<PyAny>> {
    let end = std::ptr::null_mut::<ffi::PyObject>();
    // SAFETY: all arguments are alive, and the last one is null. The call returns a new reference, or
    // null with an exception. Unlike other ways to call an object, it needs no tuple.
    unsafe {
        let (call, function) = (ffi::PyObject_CallFunctionObjArgs, function.as_ptr());
        let made = if *full && let Some(headers) = headers {
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
