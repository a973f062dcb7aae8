//! One record: a row of a batch whose fields become Python objects when they are looked at.

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyMemoryView, PyString, PyTuple, PyType};

use crate::batches::{Columns, Field, Row};

/// A record with the fields of `ConsumerRecord`, and its behaviour as a tuple of them.
#[pyclass(frozen, sequence, module = "tandem_kafka._native")]
pub struct Record {
    pub columns: Arc<Columns>,
    pub row: usize,
}

static CONSUMER_RECORD: PyOnceLock<Py<PyType>> = PyOnceLock::new();

impl Record {
    pub fn new(columns: Arc<Columns>, row: usize) -> Self {
        Record { columns, row }
    }

    fn at(&self) -> &Row {
        &self.columns.rows[self.row]
    }

    fn bytes<'py>(&self, py: Python<'py>, field: Field) -> Option<Bound<'py, PyBytes>> {
        self.columns.bytes(field).map(|bytes| PyBytes::new(py, bytes))
    }

    fn view<'py>(
        &self,
        py: Python<'py>,
        field: Field,
    ) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        if field.length < 0 {
            return Ok(None);
        }
        let slice = Bound::new(py, Slice { columns: Arc::clone(&self.columns), field })?;
        PyMemoryView::from(slice.as_any()).map(Some)
    }

    /// The Python class with the same fields.
    fn class<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyType>> {
        CONSUMER_RECORD.import(py, "tandem_kafka.types", "ConsumerRecord")
    }

    fn as_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (key, value) = (self.key(py).into_pyobject(py)?, self.value(py).into_pyobject(py)?);
        self.tuple_with(py, key.into_any(), value.into_any())
    }

    /// The fields, with another key and value.
    fn tuple_with<'py>(
        &self,
        py: Python<'py>,
        key: Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let fields: [Bound<'py, PyAny>; 13] = [
            self.topic(py).into_bound(py).into_any(),
            self.partition().into_pyobject(py)?.into_any(),
            self.leader_epoch().into_pyobject(py)?.into_any(),
            self.offset().into_pyobject(py)?.into_any(),
            self.timestamp().into_pyobject(py)?.into_any(),
            self.timestamp_type().into_pyobject(py)?.into_any(),
            key,
            value,
            self.headers(py)?.into_any(),
            py.None().into_bound(py),
            self.serialized_key_size().into_pyobject(py)?.into_any(),
            self.serialized_value_size().into_pyobject(py)?.into_any(),
            self.serialized_header_size().into_pyobject(py)?.into_any(),
        ];
        PyTuple::new(py, fields)
    }

    fn as_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Self::made_of(self.as_tuple(py)?)
    }

    fn made_of<'py>(fields: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = fields.py();
        Self::class(py)?.call_method1(intern!(py, "_make"), (fields,))
    }
}

#[pymethods]
impl Record {
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.columns.owner().topic.clone_ref(py)
    }

    #[getter]
    fn partition(&self) -> i32 {
        self.columns.owner().partition
    }

    #[getter]
    fn leader_epoch(&self) -> i32 {
        self.columns.leader_epoch
    }

    #[getter]
    fn offset(&self) -> i64 {
        self.columns.offset(self.row)
    }

    #[getter]
    fn timestamp(&self) -> i64 {
        self.at().timestamp
    }

    #[getter]
    fn timestamp_type(&self) -> i32 {
        i32::from(self.columns.log_append_time)
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.bytes(py, self.at().key)
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.bytes(py, self.at().value)
    }

    /// The key without a copy, a read-only memoryview; None without a key.
    #[getter]
    fn key_view<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        self.view(py, self.at().key)
    }

    /// The value without a copy, a read-only memoryview; None for a tombstone.
    #[getter]
    fn value_view<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        self.view(py, self.at().value)
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (name, value) in self.columns.headers(self.row) {
            // As in the Java client, what is no UTF-8 becomes replacement characters.
            let name = PyString::new(py, &String::from_utf8_lossy(name));
            list.append((name, value.map(|value| PyBytes::new(py, value))))?;
        }
        Ok(list)
    }

    /// Message format v2 has a CRC for the batch, not for the record.
    #[getter]
    fn checksum(&self) -> Option<i64> {
        None
    }

    #[getter]
    fn serialized_key_size(&self) -> i32 {
        self.at().key.length
    }

    #[getter]
    fn serialized_value_size(&self) -> i32 {
        self.at().value.length
    }

    #[getter]
    fn serialized_header_size(&self) -> i64 {
        if self.at().headers_at == 0 {
            return -1;
        }
        self.columns.header_bytes(self.row) as i64
    }

    fn __len__(&self) -> usize {
        13
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.as_tuple(index.py())?.as_any().get_item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.as_tuple(py)?.try_iter()
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let tuple = self.as_tuple(py)?;
        if let Ok(record) = other.cast::<Record>() {
            tuple.rich_compare(record.get().as_tuple(py)?, op)
        } else if other.is_instance_of::<PyTuple>() {
            tuple.rich_compare(other, op)
        } else {
            Ok(py.NotImplemented().into_bound(py))
        }
    }

    /// As for a tuple with a list in it: raises TypeError.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.as_tuple(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.as_python(py)?.repr().map(|text| text.to_string())
    }

    /// A pickle holds the record alone, as the Python class, not the batch around it.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        Ok((Self::class(py)?.clone(), self.as_tuple(py)?))
    }

    fn _asdict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_python(py)?.call_method0("_asdict")
    }

    #[pyo3(signature = (**fields))]
    fn _replace<'py>(
        &self,
        py: Python<'py>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Deserializers come this way with every record; whatever else is rare.
        if let Some(fields) = fields
            && let Some(value) = fields.get_item(intern!(py, "value"))?
            && let Some(key) = fields.get_item(intern!(py, "key"))?
            && fields.len() == 2
        {
            return Self::made_of(self.tuple_with(py, key, value)?);
        }
        self.as_python(py)?.call_method("_replace", (), fields)
    }

    #[classattr]
    fn _fields(py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Self::class(py)?.getattr("_fields")?.unbind())
    }
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
