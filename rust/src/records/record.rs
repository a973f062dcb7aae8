//! One record: a row of a batch whose fields become Python objects when they are looked at.

use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyMemoryView, PyString, PyTuple, PyType};

use crate::batches::Columns;
use crate::records::body::{Body, Part};

/// A record with the fields of `ConsumerRecord`, and its behaviour as a tuple of them.
#[pyclass(frozen, sequence, module = "tandem_kafka._native")]
pub struct Record {
    body: Body,
}

static CONSUMER_RECORD: PyOnceLock<Py<PyType>> = PyOnceLock::new();

impl Record {
    pub fn new(columns: Arc<Columns>, row: usize) -> Self {
        Record { body: Body::new(columns, row) }
    }

    /// Stands for another record from now on. Nobody but the caller may hold it.
    pub fn become_row(&self, py: Python<'_>, columns: &Arc<Columns>, row: usize) {
        self.body.become_row(py, columns, row);
    }

    /// Lets go of the batch if it is large beside this record, which the user keeps.
    pub fn settle(&self, py: Python<'_>) {
        self.body.settle(py);
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
            self.partition(py).into_pyobject(py)?.into_any(),
            self.leader_epoch(py).into_pyobject(py)?.into_any(),
            self.offset(py).into_pyobject(py)?.into_any(),
            self.timestamp(py).into_pyobject(py)?.into_any(),
            self.timestamp_type(py).into_pyobject(py)?.into_any(),
            key,
            value,
            self.headers(py)?.into_any(),
            py.None().into_bound(py),
            self.serialized_key_size(py).into_pyobject(py)?.into_any(),
            self.serialized_value_size(py).into_pyobject(py)?.into_any(),
            self.serialized_header_size(py).into_pyobject(py)?.into_any(),
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
        self.body.owner(py).topic.clone_ref(py)
    }

    #[getter]
    fn partition(&self, py: Python<'_>) -> i32 {
        self.body.owner(py).partition
    }

    #[getter]
    fn leader_epoch(&self, py: Python<'_>) -> i32 {
        self.body.leader_epoch(py)
    }

    #[getter]
    fn offset(&self, py: Python<'_>) -> i64 {
        self.body.offset(py)
    }

    #[getter]
    fn timestamp(&self, py: Python<'_>) -> i64 {
        self.body.timestamp(py)
    }

    #[getter]
    fn timestamp_type(&self, py: Python<'_>) -> i32 {
        i32::from(self.body.log_append_time(py))
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.body.bytes(py, Part::Key)
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.body.bytes(py, Part::Value)
    }

    /// The key without a copy, a read-only memoryview; None without a key.
    #[getter]
    fn key_view<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        self.body.view(py, Part::Key)
    }

    /// The value without a copy, a read-only memoryview; None for a tombstone.
    #[getter]
    fn value_view<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        self.body.view(py, Part::Value)
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.body.headers(py)
    }

    /// Message format v2 has a CRC for the batch, not for the record.
    #[getter]
    fn checksum(&self) -> Option<i64> {
        None
    }

    #[getter]
    fn serialized_key_size(&self, py: Python<'_>) -> i32 {
        self.body.length(py, Part::Key)
    }

    #[getter]
    fn serialized_value_size(&self, py: Python<'_>) -> i32 {
        self.body.length(py, Part::Value)
    }

    #[getter]
    fn serialized_header_size(&self, py: Python<'_>) -> i64 {
        self.body.header_bytes(py)
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
