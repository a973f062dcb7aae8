//! Creates `ConsumerRecord`s, which are tuples, from rows.

use std::sync::Arc;

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString, PyType};

use crate::batches::{Columns, Field, Owner, parse_headers};
use crate::records::fields::Tuples;

/// The indexes of the fields of a `ConsumerRecord`.
const FIELDS: usize = 13;
const OFFSET: usize = 3;
const TIMESTAMP: usize = 4;
const KEY: usize = 6;
const VALUE: usize = 7;
const HEADERS: usize = 8;
const KEY_SIZE: usize = 10;
const VALUE_SIZE: usize = 11;

static CONSUMER_RECORD: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// A subclass of `ConsumerRecord`, and the attribute `_origin` of its records.
pub struct Derived {
    pub class: Py<PyType>,
    pub origin: Py<PyAny>,
}

/// Creates the records of one partition; objects that they share are created once.
pub struct Maker {
    tuples: Tuples,
    derived: Option<Arc<Derived>>,
    owner: Arc<Owner>,
    partition: Py<PyAny>,
    batch: Common,
    /// Identifies the batch of `batch`; None before the first one.
    columns: Option<Arc<Columns>>,
    /// Changes with the batch.
    number: u32,
}

/// The objects that the records of a batch share.
struct Common {
    leader_epoch: Py<PyAny>,
    timestamp_type: Py<PyAny>,
    /// The last timestamp: consecutive records often have the same one.
    timestamp: (i64, Py<PyAny>),
}

/// What replaces the key, the value and the headers of a row.
#[derive(Default)]
pub struct Replaced {
    pub key: Option<Py<PyAny>>,
    pub value: Option<Py<PyAny>>,
    pub headers: Option<Py<PyAny>>,
}

impl Replaced {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        let clone = |each: &Option<Py<PyAny>>| each.as_ref().map(|each| each.clone_ref(py));
        Replaced { key: clone(&self.key), value: clone(&self.value), headers: clone(&self.headers) }
    }

    /// Whether the garbage collector must know a record with this key and value.
    fn tracked(&self) -> bool {
        [&self.key, &self.value].into_iter().flatten().any(may_hold)
    }
}

/// A returned record, which a loop may have released since.
pub struct ReturnedRecord {
    pub record: Py<PyAny>,
    pub index: usize,
    /// The batch of the record.
    number: u32,
    /// True if the record has no headers.
    plain: bool,
    tracked: bool,
    timestamp: i64,
    key_length: i32,
    value_length: i32,
}

impl Maker {
    pub fn new(py: Python<'_>, owner: Arc<Owner>, derived: Option<Arc<Derived>>) -> PyResult<Self> {
        let class = match &derived {
            Some(derived) => derived.class.bind(py),
            None => CONSUMER_RECORD.import(py, "tandem_kafka.types", "ConsumerRecord")?,
        };
        let none = int(py, -1)?;
        Ok(Maker {
            tuples: Tuples::of(py, class)?,
            derived,
            partition: int(py, i64::from(owner.partition))?,
            owner,
            batch: Common {
                leader_epoch: none.clone_ref(py),
                timestamp_type: none.clone_ref(py),
                timestamp: (-1, none),
            },
            columns: None,
            number: 0,
        })
    }

    /// Visits the origin of derived records, for the garbage collector, unless others do so.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.derived {
            Some(derived) if Arc::strong_count(derived) == 1 => visit.call(&derived.origin),
            _ => Ok(()),
        }
    }

    /// Switches to the batch of the next record.
    fn enter(&mut self, py: Python<'_>, columns: &Arc<Columns>) -> PyResult<()> {
        if self.columns.as_ref().is_some_and(|known| Arc::ptr_eq(known, columns)) {
            return Ok(());
        }
        self.batch.leader_epoch = int(py, i64::from(columns.leader_epoch))?;
        self.batch.timestamp_type = int(py, i64::from(columns.log_append_time))?;
        self.columns = Some(Arc::clone(columns));
        self.number = self.number.wrapping_add(1);
        Ok(())
    }

    fn timestamp(&mut self, py: Python<'_>, timestamp: i64) -> PyResult<Py<PyAny>> {
        let known = &mut self.batch.timestamp;
        if known.0 != timestamp {
            *known = (timestamp, int(py, timestamp)?);
        }
        Ok(known.1.clone_ref(py))
    }

    /// Creates a record from a row.
    pub fn make(
        &mut self,
        py: Python<'_>,
        columns: &Arc<Columns>,
        row: usize,
        replaced: Replaced,
    ) -> PyResult<Py<PyAny>> {
        let key = replaced.key.unwrap_or_else(|| key_of(py, columns, row));
        let value = replaced.value.unwrap_or_else(|| value_of(py, columns, row));
        let headers = replaced.headers.map_or_else(|| headers_of(py, columns, row), Ok)?;
        self.make_with(py, columns, row, [key, value, headers])
    }

    /// Creates a record from a row, with the given key, value and headers.
    pub fn make_with(
        &mut self,
        py: Python<'_>,
        columns: &Arc<Columns>,
        row: usize,
        parts: [Py<PyAny>; 3],
    ) -> PyResult<Py<PyAny>> {
        self.enter(py, columns)?;
        let fields = &columns.rows[row];
        let header_size =
            if fields.headers_at == 0 { -1 } else { columns.header_bytes(row) as i64 };
        let [key, value, headers] = parts;
        // Tracking took half of the time to make records. Objects of a deserializer can be part of
        // a cycle, bytes cannot. A cycle through a header that the user added is not collected.
        let tracked = may_hold(&key) || may_hold(&value);
        // SAFETY: the object is a list, which stays alive during the call.
        unsafe { ffi::PyObject_GC_UnTrack(headers.as_ptr().cast()) };
        let items: [Py<PyAny>; FIELDS] = [
            self.owner.topic.clone_ref(py).into_any(),
            self.partition.clone_ref(py),
            self.batch.leader_epoch.clone_ref(py),
            int(py, columns.offset(row))?,
            self.timestamp(py, fields.timestamp)?,
            self.batch.timestamp_type.clone_ref(py),
            key,
            value,
            headers,
            py.None(),
            size(py, fields.key)?,
            size(py, fields.value)?,
            int(py, header_size)?,
        ];
        let record = self.tuples.make(py, items, tracked)?;
        if let Some(derived) = &self.derived {
            let (name, origin) = (intern!(py, "_origin"), derived.origin.as_ptr());
            // SAFETY: all three are alive. The class may forbid its users to set attributes.
            let failed =
                unsafe { ffi::PyObject_GenericSetAttr(record.as_ptr(), name.as_ptr(), origin) < 0 };
            if failed {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(record)
    }

    /// Returns a record for a row: the oldest one if nothing references it any more, otherwise a new
    /// one. In that case, also returns the oldest one.
    pub fn next_record(
        &mut self,
        py: Python<'_>,
        oldest: Option<ReturnedRecord>,
        columns: &Arc<Columns>,
        row: usize,
        index: usize,
        replaced: Replaced,
    ) -> PyResult<(ReturnedRecord, Option<ReturnedRecord>)> {
        self.enter(py, columns)?;
        let tracked = replaced.tracked();
        let plain = columns.rows[row].headers_at == 0 && replaced.headers.is_none();
        let fields = &columns.rows[row];
        let (oldest, unreleased) = match oldest {
            Some(oldest) if self.is_free(py, &oldest) => (Some(oldest), None),
            held => (None, held),
        };
        let record = match oldest {
            Some(oldest) if plain && oldest.number == self.number && oldest.tracked == tracked => {
                self.renew(py, oldest, columns, row, replaced)?
            }
            _ => self.make(py, columns, row, replaced)?,
        };
        let returned = ReturnedRecord {
            record,
            index,
            number: self.number,
            plain,
            tracked,
            timestamp: fields.timestamp,
            key_length: fields.key.length,
            value_length: fields.value.length,
        };
        Ok((returned, unreleased))
    }

    /// Reuses an unreferenced record of the same batch, without headers, for a row.
    fn renew(
        &mut self,
        py: Python<'_>,
        oldest: ReturnedRecord,
        columns: &Arc<Columns>,
        row: usize,
        replaced: Replaced,
    ) -> PyResult<Py<PyAny>> {
        let (fields, record) = (&columns.rows[row], oldest.record);
        let offset = int(py, columns.offset(row))?;
        let timestamp = (fields.timestamp != oldest.timestamp)
            .then(|| self.timestamp(py, fields.timestamp))
            .transpose()?;
        let key = replaced.key.or_else(|| {
            (fields.key.length >= 0 || oldest.key_length >= 0).then(|| key_of(py, columns, row))
        });
        let key_size =
            (fields.key.length != oldest.key_length).then(|| size(py, fields.key)).transpose()?;
        let value = replaced.value.unwrap_or_else(|| value_of(py, columns, row));
        let value_size = (fields.value.length != oldest.value_length)
            .then(|| size(py, fields.value))
            .transpose()?;
        let changed = [
            (OFFSET, Some(offset)),
            (TIMESTAMP, timestamp),
            (KEY, key),
            (KEY_SIZE, key_size),
            (VALUE, Some(value)),
            (VALUE_SIZE, value_size),
        ];
        // Dropped at the end: the destructor of a deserialized object may run any code.
        let _before = changed.map(|(index, item)| {
            // SAFETY: `make_with` has created it, and nothing else references it.
            item.map(|item| unsafe { self.tuples.replace(py, &record, index, item) })
        });
        Ok(record)
    }

    /// True if nothing else references a record or its headers, and the headers are unchanged.
    /// Invariant: only such a record is reused; any other stays the record of its index.
    pub fn is_free(&self, _py: Python<'_>, returned: &ReturnedRecord) -> bool {
        // SAFETY: the GIL is held, the objects are alive, and `make_with` has created the record.
        unsafe {
            let headers = self.tuples.item(&returned.record, HEADERS);
            returned.plain
                && references(returned.record.as_ptr()) == 1
                && references(headers) == 1
                && ffi::PyList_Size(headers) == 0
        }
    }
}

/// True if an object may reference others.
fn may_hold(object: &Py<PyAny>) -> bool {
    // SAFETY: the object is alive.
    let flags = unsafe { ffi::PyType_GetFlags(ffi::Py_TYPE(object.as_ptr())) };
    flags & ffi::Py_TPFLAGS_HAVE_GC != 0
}

/// The reference count of an object.
unsafe fn references(object: *mut ffi::PyObject) -> u32 {
    // SAFETY: guaranteed by the caller: the object is alive.
    unsafe { ffi::Py_REFCNT(object) as u32 } // since Python 3.14, the upper half has flags
}

fn size(py: Python<'_>, field: Field) -> PyResult<Py<PyAny>> {
    int(py, i64::from(field.length.max(-1)))
}

fn int(py: Python<'_>, value: i64) -> PyResult<Py<PyAny>> {
    // SAFETY: the call returns a new reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromLongLong(value)).map(Bound::unbind) }
}

fn bytes_of(py: Python<'_>, columns: &Columns, field: Field) -> Py<PyAny> {
    match columns.bytes(field) {
        Some(bytes) => PyBytes::new(py, bytes).into_any().unbind(),
        None => py.None(),
    }
}

pub fn key_of(py: Python<'_>, columns: &Columns, row: usize) -> Py<PyAny> {
    bytes_of(py, columns, columns.rows[row].key)
}

pub fn value_of(py: Python<'_>, columns: &Columns, row: usize) -> Py<PyAny> {
    if let Some(next) = columns.rows.get(row + 1) {
        prefetch(columns, next.value);
    }
    bytes_of(py, columns, columns.rows[row].value)
}

/// Asks the processor for the first KiB of a field while the application has the record before it:
/// another core has received it, and to wait for it was half of the cost of a record of 1000 bytes.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
fn prefetch(columns: &Columns, field: Field) {
    #[cfg(target_arch = "x86_64")]
    for line in columns.bytes(field).unwrap_or_default().chunks(64).take(16) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Creates a separate list for each record, because users may change it.
pub fn headers_of(py: Python<'_>, columns: &Columns, row: usize) -> PyResult<Py<PyAny>> {
    let list = PyList::empty(py);
    let encoded = columns.encoded_headers(row);
    if !encoded.is_empty() {
        for (name, value) in parse_headers(encoded) {
            // Like in the Java client, invalid UTF-8 becomes replacement characters.
            let name = PyString::new(py, &String::from_utf8_lossy(name));
            list.append((name, value.map(|value| PyBytes::new(py, value))))?;
        }
    }
    Ok(list.into_any().unbind())
}
