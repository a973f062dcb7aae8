//! The columns, one by one. Names, types and order follow records/arrow.py.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int8Array, Int32Array, Int64Array, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Fields};

use crate::arrow::part::Part;
use crate::arrow::payload;
use crate::batches::Row;

/// Comes before the name of one header.
const HEADER: &str = "header:";

/// Returns a column by its name.
pub fn column(name: &str, parts: &[Part], view: bool) -> Result<(Field, ArrayRef), ArrowError> {
    let (array, nullable): (ArrayRef, bool) = match name {
        "topic" => (Arc::new(topics(parts)?), false),
        "partition" => (Arc::new(Int32Array::from(partitions(parts))), false),
        "offset" => {
            let offsets = Part::rows(parts).map(|(piece, row)| piece.columns.offset(row));
            (Arc::new(Int64Array::from_iter_values(offsets)), false)
        }
        "timestamp" => (Arc::new(timestamps(parts)), true),
        "timestamp_type" => {
            let kinds = Part::rows(parts).map(|(piece, _)| i8::from(piece.columns.log_append_time));
            (Arc::new(Int8Array::from_iter_values(kinds)), true)
        }
        "key" => (payload::column(parts, |row| row.key, view)?, true),
        "value" => (payload::column(parts, |row| row.value, view)?, true),
        "headers" => (headers(parts), false),
        "leader_epoch" => {
            let epochs = Part::rows(parts).map(|(piece, _)| piece.columns.leader_epoch);
            (Arc::new(Int32Array::from_iter_values(epochs)), false)
        }
        _ => match name.strip_prefix(HEADER) {
            Some(header) => (Arc::new(values_of(header, parts)), true),
            None => {
                let reason = format!("there is no column {name:?}");
                return Err(ArrowError::InvalidArgumentError(reason));
            }
        },
    };
    Ok((Field::new(name, array.data_type().clone(), nullable), array))
}

/// A dictionary column, because there are many records and few topics.
fn topics(parts: &[Part]) -> Result<DictionaryArray<Int32Type>, ArrowError> {
    let mut names: Vec<&str> = Vec::new();
    let mut indices = Vec::with_capacity(parts.iter().map(Part::count).sum());
    for part in parts {
        let known = names.iter().position(|name| *name == part.topic);
        let index = known.unwrap_or_else(|| {
            names.push(&part.topic);
            names.len() - 1
        });
        indices.extend(std::iter::repeat_n(index as i32, part.count()));
    }
    let values = Arc::new(StringArray::from(names));
    DictionaryArray::try_new(Int32Array::from(indices), values)
}

fn partitions(parts: &[Part]) -> Vec<i32> {
    let runs = parts.iter().map(|part| std::iter::repeat_n(part.partition, part.count()));
    runs.flatten().collect()
}

/// A record without a timestamp has -1, which becomes null.
fn timestamps(parts: &[Part]) -> TimestampMillisecondArray {
    let all = Part::rows(parts).map(|(piece, row)| {
        Some(piece.columns.rows[row].timestamp).filter(|timestamp| *timestamp != -1)
    });
    TimestampMillisecondArray::from_iter(all).with_timezone("UTC")
}

/// The first header of a name; null for records without it.
fn values_of(name: &str, parts: &[Part]) -> BinaryArray {
    let mut pieces = parts.iter().flat_map(|part| &part.pieces);
    let have_none = |rows: &[Row]| rows.iter().all(|row| row.headers_at == 0);
    if pieces.all(|piece| have_none(&piece.columns.rows[piece.start..piece.stop])) {
        return BinaryArray::new_null(parts.iter().map(Part::count).sum());
    }
    let values = Part::rows(parts).map(|(piece, row)| piece.columns.header(row, name.as_bytes()));
    BinaryArray::from_iter(values)
}

fn headers(parts: &[Part]) -> ArrayRef {
    let fields = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Binary, true),
    ]);
    let item = Field::new("item", DataType::Struct(fields.clone()), false);
    let columns: Vec<Box<dyn arrow_array::builder::ArrayBuilder>> =
        vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())];
    let mut list = ListBuilder::new(StructBuilder::new(fields, columns)).with_field(item);
    for (piece, row) in Part::rows(parts) {
        for (name, value) in piece.columns.headers(row) {
            let entry = list.values();
            let names = entry.field_builder::<StringBuilder>(0).expect("the names' builder");
            names.append_value(String::from_utf8_lossy(name));
            let values = entry.field_builder::<BinaryBuilder>(1).expect("the values' builder");
            values.append_option(value);
            entry.append(true);
        }
        list.append(true);
    }
    Arc::new(list.finish())
}
