//! What a record is made of: a row of its batch, or bytes of its own.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString};

use crate::batches::{Columns, Field, Owner, Row, headers_length, parse_headers};

/// The fields of one record.
///
/// A record begins as a row of its batch: making one costs next to nothing, and its fields become
/// Python objects when they are looked at. A record that the user keeps takes its bytes out of the
/// batch, so that a small record does not keep a large batch.
pub struct Body(UnsafeCell<State>);

// SAFETY: the state is read and changed under the GIL, which the module asks for (`gil_used`).
// No reference to it lives on while Python code can run: that might change it.
unsafe impl Sync for Body {}

enum State {
    Shared { columns: Arc<Columns>, row: usize },
    Own(Own),
}

/// A record without its batch.
struct Own {
    owner: Arc<Owner>,
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
    log_append_time: bool,
    key: Option<Py<PyBytes>>,
    value: Option<Py<PyBytes>>,
    /// As they came, their number first.
    headers: Option<Py<PyBytes>>,
}

/// A key, or a value.
#[derive(Clone, Copy)]
pub enum Part {
    Key,
    Value,
}

impl Body {
    pub fn new(columns: Arc<Columns>, row: usize) -> Self {
        Body(UnsafeCell::new(State::Shared { columns, row }))
    }

    /// The reference must be gone before Python code can run.
    fn state<'a>(&'a self, _py: Python<'a>) -> &'a State {
        // SAFETY: the GIL is held, and those who change the state do not run Python code.
        unsafe { &*self.0.get() }
    }

    /// Stands for another row.
    pub fn become_row(&self, _py: Python<'_>, columns: &Arc<Columns>, row: usize) {
        // SAFETY: the GIL is held, and no reference to the state is alive: see `state`.
        let state = unsafe { &mut *self.0.get() };
        match state {
            State::Shared { columns: mine, row: at } if Arc::ptr_eq(mine, columns) => *at = row,
            _ => *state = State::Shared { columns: Arc::clone(columns), row },
        }
    }

    /// Takes the record's bytes out of a batch that is large beside them.
    pub fn settle(&self, py: Python<'_>) {
        let own = match self.state(py) {
            State::Shared { columns, row } if columns.is_large_beside(*row) => {
                Own::of(py, columns, *row)
            }
            _ => return,
        };
        // SAFETY: the GIL is held, and no reference to the state is alive: see `state`.
        unsafe { *self.0.get() = State::Own(own) };
    }

    pub fn owner<'a>(&'a self, py: Python<'a>) -> &'a Owner {
        match self.state(py) {
            State::Shared { columns, .. } => columns.owner(),
            State::Own(own) => &own.owner,
        }
    }

    pub fn leader_epoch(&self, py: Python<'_>) -> i32 {
        match self.state(py) {
            State::Shared { columns, .. } => columns.leader_epoch,
            State::Own(own) => own.leader_epoch,
        }
    }

    pub fn log_append_time(&self, py: Python<'_>) -> bool {
        match self.state(py) {
            State::Shared { columns, .. } => columns.log_append_time,
            State::Own(own) => own.log_append_time,
        }
    }

    pub fn offset(&self, py: Python<'_>) -> i64 {
        match self.state(py) {
            State::Shared { columns, row } => columns.offset(*row),
            State::Own(own) => own.offset,
        }
    }

    pub fn timestamp(&self, py: Python<'_>) -> i64 {
        match self.state(py) {
            State::Shared { columns, row } => columns.rows[*row].timestamp,
            State::Own(own) => own.timestamp,
        }
    }

    /// Makes an object of a key or a value; None for null.
    pub fn bytes<'py>(&self, py: Python<'py>, part: Part) -> Option<Bound<'py, PyBytes>> {
        match self.state(py) {
            State::Shared { columns, row } => made(py, columns.bytes(part.of(&columns.rows[*row]))),
            State::Own(own) => own.part(part).map(|bytes| bytes.bind(py).clone()),
        }
    }

    /// Bytes of a key or value; -1 for null.
    pub fn length(&self, py: Python<'_>, part: Part) -> i32 {
        match self.state(py) {
            State::Shared { columns, row } => part.of(&columns.rows[*row]).length,
            State::Own(own) => own.part(part).map_or(-1, |bytes| bytes.as_bytes(py).len() as i32),
        }
    }

    /// Bytes of names, as they are shown, and values; -1 without headers.
    pub fn header_bytes(&self, py: Python<'_>) -> i64 {
        match self.state(py) {
            State::Shared { columns, row } => size_of_headers(columns.encoded_headers(*row)),
            State::Own(own) => {
                own.headers.as_ref().map_or(-1, |headers| size_of_headers(headers.as_bytes(py)))
            }
        }
    }

    pub fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        // Making a list may run Python code, by the garbage collection: hold on to the bytes.
        match self.state(py) {
            State::Shared { columns, row } => {
                let (columns, row) = (Arc::clone(columns), *row);
                list_of_headers(py, columns.encoded_headers(row))
            }
            State::Own(Own { headers: Some(headers), .. }) => {
                let headers = headers.bind(py).clone();
                list_of_headers(py, headers.as_bytes())
            }
            State::Own(_) => Ok(PyList::empty(py)),
        }
    }

    /// A key or value where it is, as a read-only memoryview; None for null.
    pub fn view<'py>(
        &self,
        py: Python<'py>,
        part: Part,
    ) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let (columns, field) = match self.state(py) {
            State::Shared { columns, row } => (Arc::clone(columns), part.of(&columns.rows[*row])),
            State::Own(own) => {
                let bytes = own.part(part).map(|bytes| bytes.bind(py).clone());
                return bytes.map(|bytes| PyMemoryView::from(bytes.as_any())).transpose();
            }
        };
        if field.length < 0 {
            return Ok(None);
        }
        let slice = Bound::new(py, Slice { columns, field })?;
        PyMemoryView::from(slice.as_any()).map(Some)
    }
}

impl Part {
    fn of(self, row: &Row) -> Field {
        match self {
            Part::Key => row.key,
            Part::Value => row.value,
        }
    }
}

impl Own {
    fn of(py: Python<'_>, columns: &Columns, row: usize) -> Self {
        let Row { key, value, timestamp, .. } = columns.rows[row];
        let headers = match columns.encoded_headers(row) {
            [] => None,
            encoded => made(py, Some(&encoded[..headers_length(encoded)])),
        };
        Own {
            owner: columns.shared_owner(),
            offset: columns.offset(row),
            timestamp,
            leader_epoch: columns.leader_epoch,
            log_append_time: columns.log_append_time,
            key: made(py, columns.bytes(key)).map(Bound::unbind),
            value: made(py, columns.bytes(value)).map(Bound::unbind),
            headers: headers.map(Bound::unbind),
        }
    }

    fn part(&self, part: Part) -> Option<&Py<PyBytes>> {
        match part {
            Part::Key => self.key.as_ref(),
            Part::Value => self.value.as_ref(),
        }
    }
}

/// Makes an object of bytes. That runs no Python code, for the garbage collection knows none.
fn made<'py>(py: Python<'py>, bytes: Option<&[u8]>) -> Option<Bound<'py, PyBytes>> {
    bytes.map(|bytes| PyBytes::new(py, bytes))
}

fn size_of_headers(encoded: &[u8]) -> i64 {
    if encoded.is_empty() {
        return -1;
    }
    let size = |(name, value): &(&[u8], Option<&[u8]>)| {
        String::from_utf8_lossy(name).len() + value.map_or(0, <[u8]>::len)
    };
    parse_headers(encoded).iter().map(size).sum::<usize>() as i64
}

fn list_of_headers<'py>(py: Python<'py>, encoded: &[u8]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    if encoded.is_empty() {
        return Ok(list);
    }
    for (name, value) in parse_headers(encoded) {
        // As in the Java client, what is no UTF-8 becomes replacement characters.
        let name = PyString::new(py, &String::from_utf8_lossy(name));
        list.append((name, value.map(|value| PyBytes::new(py, value))))?;
    }
    Ok(list)
}

/// A key or a value in the memory it was received in.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Slice {
    columns: Arc<Columns>,
    field: Field,
}

#[pymethods]
impl Slice {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let slice = slf.get();
        let bytes = slice.columns.bytes(slice.field).unwrap_or_default();
        // SAFETY: the slice owns a share of the buffer, whose bytes never change.
        unsafe { crate::view::fill_view(&slf, bytes, view, flags) }
    }
}
