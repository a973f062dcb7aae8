//! Returns the records of one fetched partition, once and in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::batches::{Batches, Columns, Decoder, Owner, Problem, Segment};
use crate::options::DecodeOptions;
use crate::records::rows::{Piece, Rows};
use crate::records::sequence::Records;

import_exception!(tandem_kafka.errors, CorruptRecordError);
import_exception!(tandem_kafka.errors, UnsupportedCodecError);

/// Bytes to decode at once if they were not decoded on receipt. Each time, the GIL is released and
/// acquired again.
const AT_ONCE_BYTES: usize = 4 * 1024 * 1024;

/// The native `RecordReader` of records/decoder.py.
#[pyclass(module = "tandem_kafka._native")]
pub struct RecordReader {
    owner: Arc<Owner>,
    segments: VecDeque<Segment>,
    decoder: Decoder,
    /// The highest possible leader epoch of a batch; -1 means unknown.
    max_leader_epoch: i32,
    /// The segment whose records are being returned.
    current: Option<Current>,
    failed: Option<Problem>,
    /// Memory of the encoded batches.
    encoded_bytes: usize,
    /// Memory of the segments decoded on receipt, which the budget limits.
    ahead_bytes: usize,
    /// Memory of the segments decoded since.
    #[pyo3(get)]
    open_bytes: usize,
    /// The parts of both that the end of the current batch frees.
    freed: (usize, usize),
    #[pyo3(get)]
    end_offset: i64,
    #[pyo3(get)]
    pub next_offset: i64,
    #[pyo3(get)]
    pub leader_epoch: i32,
    #[pyo3(get)]
    pub exhausted: bool,
    #[pyo3(get)]
    pub taken_bytes: usize,
}

/// A segment, and the number of records already returned.
struct Current {
    columns: Arc<Columns>,
    row: usize,
    next_offset: i64,
    rows_bytes: usize,
    was_ahead: bool,
    ends_batch: bool,
}

/// The remaining limits of one call of `take`.
struct Room {
    records: usize,
    /// None means unlimited.
    bytes: Option<usize>,
    /// True until the first record, which is returned regardless of its size.
    first: bool,
}

impl Room {
    /// True if no further record fits, so that the next batch need not be decoded.
    fn is_full(&self) -> bool {
        self.bytes == Some(0) && !self.first
    }

    /// Returns the row at which to stop, and the bytes of the rows from `start` up to it.
    fn fill(&mut self, columns: &Columns, start: usize) -> (usize, usize) {
        let last = columns.rows.len().min(start.saturating_add(self.records));
        let Some(remaining) = self.bytes else {
            return (last, 0);
        };
        // The limit is seldom reached, and a plain sum is faster than a search.
        let whole = bytes_of(columns, start..last);
        if whole <= remaining {
            self.first &= start == last;
            self.bytes = Some(remaining - whole);
            return (last, whole);
        }
        let (mut stop, mut used) = (start, 0);
        while stop < last {
            let size = columns.record_bytes(stop);
            if used + size > remaining && !self.first {
                break;
            }
            self.first = false;
            used = used.saturating_add(size);
            stop += 1;
        }
        self.bytes = Some(remaining.saturating_sub(used));
        (stop, used)
    }
}

/// The sum of `Columns::record_bytes` of some records.
fn bytes_of(columns: &Columns, rows: Range<usize>) -> usize {
    let (mut sum, mut headers) = (0, 0);
    for row in &columns.rows[rows.clone()] {
        let size = row.key.length.max(0) as u32 + row.value.length.max(0) as u32;
        sum += size.max(1) as usize;
        headers |= row.headers_at;
    }
    // No branch per record. Headers are rare, and counted separately.
    if headers == 0 { sum } else { rows.map(|row| columns.record_bytes(row)).sum() }
}

#[pymethods]
impl RecordReader {
    #[new]
    #[pyo3(signature = (
        topic, partition, fetch_offset, batches, *, max_leader_epoch, read_committed, check_crcs,
        max_decompressed_batch_bytes, max_record_headers
    ))]
    #[allow(clippy::too_many_arguments)] // options, passed by name
    fn new(
        topic: Py<PyString>,
        partition: i32,
        fetch_offset: i64,
        batches: &Batches,
        max_leader_epoch: i32,
        read_committed: bool,
        check_crcs: bool,
        max_decompressed_batch_bytes: usize,
        max_record_headers: usize,
    ) -> Self {
        let options = DecodeOptions {
            read_committed,
            check_crcs,
            max_decompressed_batch_bytes,
            max_record_headers,
        };
        Self::open(topic, partition, fetch_offset, batches, max_leader_epoch, &options)
    }

    #[getter]
    pub fn size_bytes(&self) -> usize {
        self.encoded_bytes + self.ahead_bytes + self.open_bytes
    }

    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.owner.topic.clone_ref(py)
    }

    #[getter]
    fn partition(&self) -> i32 {
        self.owner.partition
    }

    /// Return up to `max_records` records and move on; see `RecordReader.take`.
    #[pyo3(signature = (max_records, max_bytes = None))]
    pub fn take(
        &mut self,
        py: Python<'_>,
        max_records: usize,
        max_bytes: Option<usize>,
    ) -> PyResult<Records> {
        let mut taken = Rows::empty(Arc::clone(&self.owner));
        let mut room = Room { records: max_records, bytes: max_bytes, first: true };
        while room.records > 0 && !self.exhausted {
            if self.current.is_none()
                && let Err(problem) = self.open_batch(py)
            {
                // Return the records before the bad batch first; the next call meets the problem again.
                if taken.is_empty() {
                    return Err(self.error(py, problem));
                }
                break;
            }
            self.take_from_batch(&mut room, &mut taken);
            if self.current.is_some() || room.is_full() {
                break;
            }
        }
        Ok(Records::new(taken.compacted()))
    }
}

impl RecordReader {
    pub fn open(
        topic: Py<PyString>,
        partition: i32,
        fetch_offset: i64,
        batches: &Batches,
        max_leader_epoch: i32,
        options: &DecodeOptions,
    ) -> Self {
        let mut ahead = batches.open(options);
        let mut last_offset = batches.last_offset();
        if let Some(problem) = batches.check_beginning(fetch_offset) {
            ahead.decoder.fail(problem);
            ahead.segments.clear();
            last_offset = None;
        }
        let memory = |segment: &Segment| segment.rows_bytes() + segment.unpacked_bytes;
        RecordReader {
            owner: Arc::new(Owner { topic, partition }),
            exhausted: ahead.segments.is_empty() && ahead.decoder.finished(),
            encoded_bytes: batches.held_bytes(),
            ahead_bytes: ahead.segments.iter().map(memory).sum(),
            open_bytes: 0,
            freed: (0, 0),
            segments: ahead.segments,
            decoder: ahead.decoder,
            max_leader_epoch,
            current: None,
            failed: None,
            end_offset: last_offset.map_or(fetch_offset, |last| fetch_offset.max(last + 1)),
            next_offset: fetch_offset,
            leader_epoch: -1,
            taken_bytes: 0,
        }
    }

    fn take_from_batch(&mut self, room: &mut Room, taken: &mut Rows) {
        let Some(mut current) = self.current.take() else { return };
        let (columns, start) = (Arc::clone(&current.columns), current.row);
        let (stop, bytes) = room.fill(&columns, start);
        room.records -= stop - start;
        self.taken_bytes += bytes;
        if start < stop {
            taken.push(Piece { columns: Arc::clone(&columns), start, stop });
        }
        if stop < columns.rows.len() {
            if stop > start {
                self.next_offset = columns.offset(stop - 1) + 1;
            }
            current.row = stop;
            self.current = Some(current);
        } else {
            self.leave(&current);
        }
    }

    /// Accounts for a segment whose records were all returned.
    fn leave(&mut self, current: &Current) {
        self.next_offset = self.next_offset.max(current.next_offset);
        self.exhausted = self.segments.is_empty() && self.decoder.finished();
        let rows = if current.was_ahead { &mut self.ahead_bytes } else { &mut self.open_bytes };
        *rows -= current.rows_bytes;
        if current.ends_batch {
            let (ahead, open) = std::mem::take(&mut self.freed);
            self.ahead_bytes -= ahead;
            self.open_bytes -= open;
        }
    }

    /// Advances to the first requested record of the next batch.
    fn open_batch(&mut self, py: Python<'_>) -> Result<(), Problem> {
        if self.segments.is_empty() {
            self.decode_some(py)?;
        }
        let Some(segment) = self.segments.pop_front() else { return Ok(()) };
        let rows_bytes = segment.rows_bytes();
        let was_ahead = segment.charge.is_some();
        let freed = if was_ahead { &mut self.freed.0 } else { &mut self.freed.1 };
        *freed += segment.unpacked_bytes;
        let mut columns = segment.columns;
        if columns.leader_epoch > self.max_leader_epoch
            && self.max_leader_epoch >= 0
            && let Some(columns) = Arc::get_mut(&mut columns)
        {
            columns.leader_epoch = -1; // corrupt: the CRC does not cover it
        }
        let _ = columns.owner.set(Arc::clone(&self.owner));
        self.leader_epoch = columns.leader_epoch;
        let delta = self.next_offset - columns.base_offset;
        let row = columns.rows.partition_point(|row| i64::from(row.offset_delta) < delta);
        self.current = Some(Current {
            columns,
            row,
            next_offset: segment.next_offset,
            rows_bytes,
            was_ahead,
            ends_batch: segment.ends_batch,
        });
        Ok(())
    }

    fn decode_some(&mut self, py: Python<'_>) -> Result<(), Problem> {
        if let Some(problem) = &self.failed {
            return Err(problem.clone());
        }
        let (decoder, segments) = (&mut self.decoder, &mut self.segments);
        let (problem, size) = py.detach(|| {
            let mut size = 0;
            while size < AT_ONCE_BYTES {
                match decoder.next() {
                    Some(Ok(segment)) => {
                        size += segment.rows_bytes() + segment.unpacked_bytes;
                        segments.push_back(segment);
                    }
                    Some(Err(problem)) => return (Some(problem), size),
                    None => break,
                }
            }
            (None, size)
        });
        self.open_bytes += size;
        self.failed = problem;
        match &self.failed {
            Some(problem) if self.segments.is_empty() => Err(problem.clone()),
            _ => Ok(()),
        }
    }

    fn error(&self, py: Python<'_>, problem: Problem) -> PyErr {
        let (kind, problem) = match problem {
            Problem::Corrupt(problem) => (py.get_type::<CorruptRecordError>(), problem),
            Problem::Codec(problem) => (py.get_type::<UnsupportedCodecError>(), problem),
            Problem::TooLarge => (py.get_type::<CorruptRecordError>(), "too large".to_owned()),
        };
        let (topic, end) = (self.owner.topic.bind(py), self.decoder.end_of_batch());
        kind.call_method1("at", (topic, self.owner.partition, self.next_offset, problem, end))
            .map_or_else(|error| error, PyErr::from_value)
    }
}
