//! Keys and values to Arrow columns of their content: JSON, Avro, Protobuf and text.
//!
//! A decoder takes a column of byte strings and returns a column of as many values. What cannot be
//! decoded becomes null, and is listed with the reason.

mod avro;
mod cells;
mod column;
mod format;
mod framing;
mod infer;
mod input;
mod json;
mod limits;
mod protobuf;
mod scalars;
mod text;

use std::collections::HashMap;

use arrow_array::Array;
use arrow_schema::Field;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tandem_kafka_capsule::{ArrowArray, ArrowType, data_type_of};

use crate::format::{Failures, Format, column_of, decode};
use crate::framing::SchemaId;
use crate::input::Input;
use crate::limits::cut;

/// The error for a schema that cannot be used.
fn unusable(reason: String) -> PyErr {
    PyValueError::new_err(cut(reason))
}

/// Decodes a column of binary values.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct ColumnDecoder(Box<dyn Format>);

#[pymethods]
impl ColumnDecoder {
    /// JSON of the type that `schema` exports by `__arrow_c_schema__`.
    #[staticmethod]
    fn json(schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let data_type = data_type_of(schema)?;
        schema.py().detach(|| column::check(&data_type, "")).map_err(unusable)?;
        Ok(ColumnDecoder(Box::new(json::Json::new(data_type))))
    }

    /// JSON of the type that the first `samples` values have in common.
    #[staticmethod]
    fn infer_json(column: &Bound<'_, PyAny>, samples: usize) -> PyResult<Self> {
        let input = Input::imported(column)?;
        let found = column.py().detach(|| infer::data_type(&input, samples));
        let data_type = found.map_err(unusable)?;
        Ok(ColumnDecoder(Box::new(json::Json::inferred(data_type))))
    }

    /// Avro of a reader's schema. Each schema is JSON, and before it those that it refers to. With
    /// `writers`, values begin with the id of the schema they were written with. Decimals have at
    /// most `max_precision` digits: 38 or 76.
    #[staticmethod]
    fn avro(
        py: Python<'_>,
        reader: avro::Texts,
        writers: Option<HashMap<SchemaId, avro::Texts>>,
        max_precision: u8,
    ) -> PyResult<Self> {
        let made = py.detach(|| avro::Avro::new(&reader, writers, max_precision));
        Ok(ColumnDecoder(Box::new(made.map_err(unusable)?)))
    }

    /// The ids of schemas that values begin with, or that their headers have instead, in the order
    /// of their first use.
    #[staticmethod]
    #[pyo3(signature = (column, headers=None))]
    fn schema_ids(
        column: &Bound<'_, PyAny>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<SchemaId>> {
        let (input, headers) = Input::with_headers(column, headers)?;
        Ok(column.py().detach(|| framing::ids(&input, headers.as_ref())))
    }

    /// A message of Protobuf in a FileDescriptorSet. With `framed`, values begin with the id of a
    /// schema and the indexes of the message in it. With `files`, each a FileDescriptorProto, they
    /// must be those of this message. Times are in microseconds, or in `nanoseconds`. See
    /// `Protobuf` in Python for `struct_as_json` and `as_spark`.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "Python gives each as an option")]
    fn protobuf(
        py: Python<'_>,
        descriptors: &[u8],
        message: &str,
        framed: bool,
        files: Option<HashMap<SchemaId, Vec<u8>>>,
        nanoseconds: bool,
        struct_as_json: bool,
        as_spark: bool,
    ) -> PyResult<Self> {
        let style = protobuf::Style::new(nanoseconds, struct_as_json, as_spark);
        let made = py.detach(|| {
            let framing = protobuf::Framing::new(framed, files);
            protobuf::Protobuf::new(descriptors, message, framing, style)
        });
        Ok(ColumnDecoder(Box::new(made.map_err(unusable)?)))
    }

    /// UTF-8.
    #[staticmethod]
    fn text() -> Self {
        ColumnDecoder(Box::new(text::Text))
    }

    /// The type of the decoded column.
    #[getter]
    fn data_type(&self) -> PyResult<ArrowType> {
        let nothing = column_of(self.0.as_ref(), 0).finish();
        let nothing = nothing.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(ArrowType::new(Field::new("", nothing.data_type().clone(), true)))
    }

    /// The fields that values of a schema of the registry have, and the column does not; not all of
    /// many.
    fn left_out(&self, py: Python<'_>, id: SchemaId) -> Vec<String> {
        py.detach(|| self.0.left_out(&id))
    }

    /// Return the decoded column, and the rows that cannot be decoded, with the reason. `headers`
    /// has the header of each value that names its schema, or null.
    #[pyo3(signature = (column, headers=None))]
    fn decode(
        &self,
        column: &Bound<'_, PyAny>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(ArrowArray, Failures)> {
        let (input, headers) = Input::with_headers(column, headers)?;
        let decoded = column.py().detach(|| decode(self.0.as_ref(), &input, headers.as_ref()));
        let (array, failures) =
            decoded.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((ArrowArray::new(array), failures))
    }
}
