//! A column of any format, on several threads.

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Field};

use crate::column::Column;
use crate::framing::SchemaId;
use crate::input::Input;
use crate::limits::cut;

/// A thread more for each of these bytes: less than that is decoded before a thread has begun.
const BYTES_PER_THREAD: usize = 1 << 20;

/// Decodes byte strings one after another.
pub trait Decode {
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
pub trait Format: Send + Sync {
    fn data_type(&self) -> DataType;

    fn decoder(&self) -> Box<dyn Decode + '_>;

    /// The places of fields that values of a schema have, and the column does not; not all of many.
    fn left_out(&self, _id: &SchemaId) -> Vec<String> {
        Vec::new()
    }
}

/// What cannot be decoded: its row, and why.
pub type Failures = Vec<(usize, String)>;

/// Decodes on as many threads as there are cores, if there is work for them.
pub fn decode(
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
pub fn column_of(format: &dyn Format, rows: usize) -> Column {
    Column::new(Arc::new(Field::new("", format.data_type(), true)), rows)
}

pub fn decode_rows(
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
