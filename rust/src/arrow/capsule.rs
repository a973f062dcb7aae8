//! The Arrow PyCapsule protocol, by which consumers of Arrow data import a record batch.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, StructArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A record batch for anything that reads Arrow: pyarrow, polars, DuckDB, pandas.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct ArrowBatch(StructArray);

impl ArrowBatch {
    pub fn new(batch: StructArray) -> Self {
        ArrowBatch(batch)
    }
}

#[pymethods]
impl ArrowBatch {
    /// Return the capsules of schema and array; a requested schema is ignored.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let data = self.0.to_data();
        let schema = FFI_ArrowSchema::try_from(data.data_type())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let array = FFI_ArrowArray::new(&data);
        // A consumer that imports the content leaves an empty struct, which is dropped with the capsule.
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}
