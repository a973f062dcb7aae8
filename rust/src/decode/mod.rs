//! Keys and values to Arrow columns of their content: JSON, Avro, Protobuf and text.
//!
//! A decoder takes a column of byte strings and returns a column of as many values. What cannot be
//! decoded becomes null, and is listed with the reason. Nothing else in this crate knows of it.

mod avro;
mod cells;
mod column;
mod framing;
mod infer;
mod input;
mod json;
mod protobuf;
mod scalars;
mod text;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Field};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::{ArrowArray, ArrowType, data_type_of};
use crate::decode::column::Column;
use crate::decode::framing::SchemaId;
use crate::decode::input::Input;

/// A thread more for each of these bytes: less than that is decoded before a thread has begun.
const BYTES_PER_THREAD: usize = 1 << 20;
/// A message quotes content of any length.
const MESSAGE_CHARS: usize = 300;

/// A long name of a field counts as several: each column has it again.
const CHARS_PER_NAME: usize = 256;

/// The bytes that full names may have in a schema of so many: each repeats the names around it.
fn names_limit(bytes: usize) -> usize {
    10 * bytes + (1 << 16)
}

/// The place of a part of a value, cut off where a message ends.
fn below(place: &str, part: &str) -> String {
    cut(format!("{place}{part}"))
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The error for a schema that cannot be used.
fn unusable(reason: String) -> PyErr {
    PyValueError::new_err(cut(reason))
}

/// Decodes byte strings one after another.
trait Decode {
    /// Append the decoded value. After an error, a part of it may be there.
    ///
    /// A header that names the schema takes the place of what the value begins with.
    fn read(
        &mut self,
        header: Option<&[u8]>,
        bytes: &[u8],
        column: &mut Column,
    ) -> Result<(), String>;
}

/// A kind of content.
trait Format: Send + Sync {
    fn data_type(&self) -> DataType;

    fn decoder(&self) -> Box<dyn Decode + '_>;

    /// The places of fields that values of a schema have, and the column does not; not all of many.
    fn left_out(&self, _id: &SchemaId) -> Vec<String> {
        Vec::new()
    }
}

/// What cannot be decoded: its row, and why.
type Failures = Vec<(usize, String)>;

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

/// Decodes on as many threads as there are cores, if there is work for them.
fn decode(
    format: &dyn Format,
    input: &Input,
    headers: Option<&Input>,
) -> Result<(ArrayRef, Failures), ArrowError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = (input.size() / BYTES_PER_THREAD + 1).min(cores).min(input.len().max(1));
    if threads == 1 {
        return decode_rows(format, input, headers, 0..input.len());
    }
    let rows = input.len().div_ceil(threads);
    let parts = thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|number| {
                let (first, last) = (number * rows, ((number + 1) * rows).min(input.len()));
                scope.spawn(move || decode_rows(format, input, headers, first.min(last)..last))
            })
            .collect();
        let joined = started.into_iter().map(|thread| thread.join().expect("a decoder panicked"));
        joined.collect::<Result<Vec<_>, ArrowError>>()
    })?;
    let data: Vec<_> = parts.iter().map(|(array, _)| array.to_data()).collect();
    let mut whole = MutableArrayData::new(data.iter().collect(), false, input.len());
    for (number, part) in data.iter().enumerate() {
        whole.try_extend(number, 0, part.len())?;
    }
    let failures = parts.into_iter().flat_map(|(_, failures)| failures);
    Ok((make_array(whole.freeze()), failures.collect()))
}

/// An empty column for a number of rows.
fn column_of(format: &dyn Format, rows: usize) -> Column {
    Column::new(Arc::new(Field::new("", format.data_type(), true)), rows)
}

fn decode_rows(
    format: &dyn Format,
    input: &Input,
    headers: Option<&Input>,
    rows: Range<usize>,
) -> Result<(ArrayRef, Failures), ArrowError> {
    let (mut decoder, mut column) = (format.decoder(), column_of(format, rows.len()));
    let mut failures = Failures::new();
    for row in rows {
        let length = column.len();
        let header = headers.and_then(|headers| headers.get(row));
        match input.get(row).map(|bytes| decoder.read(header, bytes, &mut column)) {
            Some(Ok(())) => {}
            Some(Err(reason)) => {
                column.truncate(length);
                failures.push((row, cut(reason)));
                column.push_null();
            }
            None => column.push_null(),
        }
    }
    Ok((column.finish()?, failures))
}
