//! Records as an Arrow record batch, exported by the Arrow C data interface.

mod fields;
mod part;
mod payload;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tandem_kafka_capsule::ArrowArray;

use crate::arrow::part::Part;
use crate::records::Records;

/// Return the records as one Arrow record batch with the named columns.
///
/// With `binary_view`, keys and values stay in the memory in which they were received.
#[pyfunction]
#[pyo3(signature = (sequences, columns, *, binary_view))]
pub fn to_arrow(
    py: Python<'_>,
    sequences: Vec<PyRef<'_, Records>>,
    columns: &Bound<'_, PyTuple>,
    binary_view: bool,
) -> PyResult<ArrowArray> {
    let columns: Vec<String> = columns.extract()?;
    let parts = sequences
        .iter()
        .map(|records| {
            let rows = records.fresh_rows(py)?;
            let topic = rows.owner.topic.bind(py).to_cow()?.into_owned(); // runs no signal handler
            Ok(Part { topic, partition: rows.owner.partition, pieces: rows.pieces.clone() })
        })
        .collect::<PyResult<Vec<Part>>>()?;
    let batch = py.detach(|| build(&parts, &columns, binary_view));
    let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(ArrowArray::new(Arc::new(StructArray::from(batch))))
}

fn build(parts: &[Part], columns: &[String], view: bool) -> Result<RecordBatch, ArrowError> {
    let mut names = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for name in columns {
        let (field, array) = fields::column(name, parts, view)?;
        names.push(Arc::new(field));
        arrays.push(array);
    }
    let rows = parts.iter().map(Part::count).sum();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(names)), arrays, &options)
}
