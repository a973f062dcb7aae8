//! What a collection has read so far, and the room that is left.

use std::sync::Arc;

use pyo3::import_exception;
use pyo3::prelude::*;

use crate::records::{RecordReader, Records, Replaced, Rows};
use crate::standing::CHUNK_BYTES;

import_exception!(kafka.errors, KafkaError);

/// What may still be added, as `Room` of `opened_chunk.py`.
pub(super) struct Room {
    pub(super) records: usize,
    pub(super) bytes: i64,
    pub(super) empty: bool,
}

impl Room {
    pub(super) fn add(&mut self, count: usize, size: i64) -> bool {
        let left = self.bytes - size;
        if left < 0 && !self.empty {
            self.records = 0;
            return false;
        }
        self.bytes = left;
        self.records = if left > 0 { self.records - count } else { 0 };
        self.empty &= count == 0;
        true
    }
}

/// What a collection has read so far.
pub(super) struct Filling<'py> {
    pub(super) parts: Vec<Part<'py>>,
    pub(super) room: Room,
    /// Whether a chunk was read to its end.
    pub(super) released: bool,
}

/// What a collection has read of a partition.
pub(super) struct Part<'py> {
    pub(super) state: Bound<'py, PyAny>,
    pub(super) base: Bound<'py, PyAny>,
    pub(super) begin: Bound<'py, PyAny>,
    pub(super) rows: Vec<Arc<Rows>>,
    /// What deserializers have made of them, if they are called.
    pub(super) values: Vec<Replaced>,
    /// The offset and the leader epoch of the position after them.
    pub(super) at: (i64, i32),
    /// The last of its open chunks, if all were read to the end.
    pub(super) last: Option<Bound<'py, PyAny>>,
}

/// What deserializers have made of rows, up to the first failure.
pub(super) struct Values {
    /// Empty if none are called.
    pub(super) made: Vec<Replaced>,
    /// The rows that may be returned.
    pub(super) rows: Arc<Rows>,
    /// The offset and the leader epoch of the record that cannot be deserialized.
    pub(super) failed_at: Option<(i64, i32)>,
}

impl Filling<'_> {
    /// Notes how many bytes are left of the chunk that was read.
    pub(super) fn note(&mut self, left: i64) {
        if left == 0 {
            self.released = true;
        } else {
            self.room.records = 0; // its next record does not fit, and precedes those of other chunks
        }
    }
}

impl Values {
    /// The bytes to count for what is left of the chunk; 0 if it was read to its end.
    pub(super) fn left(&self, reader: &RecordReader) -> i64 {
        let whole = reader.exhausted && self.failed_at.is_none();
        if whole { 0 } else { (reader.size_bytes() + CHUNK_BYTES) as i64 }
    }
}

impl<'py> Part<'py> {
    /// Nothing yet, of a position and the base that its records were fetched from.
    pub(super) fn of(
        state: Bound<'py, PyAny>,
        base: Bound<'py, PyAny>,
        begin: Bound<'py, PyAny>,
        offset: i64,
    ) -> Self {
        let (rows, values) = (Vec::new(), Vec::new());
        Part { state, base, begin, rows, values, at: (offset, -1), last: None }
    }

    /// Adds what a reader has given.
    pub(super) fn add(&mut self, values: Values, reader: &RecordReader) {
        self.at = values.failed_at.unwrap_or((reader.next_offset, reader.leader_epoch));
        self.values.extend(values.made);
        self.rows.push(values.rows);
    }

    pub(super) fn has_rows(&self) -> bool {
        self.rows.iter().any(|rows| !rows.is_empty())
    }

    /// All rows as one; None if there are none.
    pub(super) fn joined(&self) -> Option<Arc<Rows>> {
        let mut filled = self.rows.iter().filter(|rows| !rows.is_empty());
        let first = filled.next()?;
        let mut rest = filled.peekable();
        if rest.peek().is_none() {
            return Some(Arc::clone(first));
        }
        let mut whole = Rows::empty(Arc::clone(&first.owner));
        for rows in std::iter::once(first).chain(rest) {
            rows.pieces.iter().for_each(|piece| whole.push(piece.clone()));
        }
        Some(Arc::new(whole))
    }
}

/// Takes the records that fit. None if they cannot be read: the reader has not moved, and Python
/// meets the error again.
pub(super) fn take(
    py: Python<'_>,
    reader: &mut RecordReader,
    room: &Room,
) -> PyResult<Option<Records>> {
    match reader.take(py, room.records, usize::try_from(room.bytes).ok()) {
        // A signal handler may have raised another one.
        Err(error) if error.is_instance_of::<KafkaError>(py) => Ok(None),
        taken => taken.map(Some),
    }
}
