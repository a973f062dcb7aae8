//! Hands out the records of one fetched partition, once and in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::batches::{Batches, Columns, Decoder, Owner, Problem, Row, Segment};
use crate::options::DecodeOptions;
use crate::records::sequence::{Piece, Records};

import_exception!(tandem_kafka.errors, CorruptRecordError);
import_exception!(tandem_kafka.errors, UnsupportedCodecError);

/// How much is decoded at once of what was not decoded at receipt; each time costs a hand-over of
/// the GIL.
const AT_ONCE_BYTES: usize = 4 * 1024 * 1024;

/// The native `RecordReader` of records/decoder.py.
#[pyclass(module = "tandem_kafka._native")]
pub struct RecordReader {
    owner: Arc<Owner>,
    segments: VecDeque<Segment>,
    decoder: Decoder,
    /// The batch being handed out, and how far it is.
    current: Option<(Arc<Columns>, usize)>,
    current_end: i64,
    failed: Option<Problem>,
    #[pyo3(get)]
    size_bytes: usize,
    #[pyo3(get)]
    end_offset: i64,
    #[pyo3(get)]
    next_offset: i64,
    #[pyo3(get)]
    leader_epoch: i32,
    #[pyo3(get)]
    exhausted: bool,
    #[pyo3(get)]
    taken_bytes: usize,
}

/// What one call of `take` may still return.
struct Room {
    records: usize,
    /// None without a bound.
    bytes: Option<usize>,
    /// The first record comes whatever its size.
    first: bool,
}

impl Room {
    /// True when no further record fits: the next batch need not be decoded.
    fn is_full(&self) -> bool {
        self.bytes == Some(0) && !self.first
    }

    /// Returns where to stop among the rows from `start` on, and the bytes of those before it.
    fn fill(&mut self, columns: &Columns, start: usize) -> (usize, usize) {
        let most = columns.rows.len().min(start.saturating_add(self.records));
        let Some(left) = self.bytes else {
            return (most, 0);
        };
        // The bound is seldom reached, and adding up is quicker than looking for where it is.
        let whole = bytes_of(columns, start..most);
        if whole <= left {
            self.first &= start == most;
            self.bytes = Some(left - whole);
            return (most, whole);
        }
        let (mut stop, mut used) = (start, 0);
        while stop < most {
            let size = columns.record_bytes(stop);
            if used + size > left && !self.first {
                break;
            }
            self.first = false;
            used = used.saturating_add(size);
            stop += 1;
        }
        self.bytes = Some(left.saturating_sub(used));
        (stop, used)
    }
}

/// Bytes of some records, each as `Columns::record_bytes` counts it.
fn bytes_of(columns: &Columns, rows: Range<usize>) -> usize {
    let (mut sum, mut headers) = (0, 0);
    for row in &columns.rows[rows.clone()] {
        let size = row.key.length.max(0) as u32 + row.value.length.max(0) as u32;
        sum += size.max(1) as usize;
        headers |= row.headers_at;
    }
    // Without a branch for each: headers are seldom, and are counted one record at a time.
    if headers == 0 { sum } else { rows.map(|row| columns.record_bytes(row)).sum() }
}

#[pymethods]
impl RecordReader {
    #[new]
    #[pyo3(signature = (
        topic, partition, fetch_offset, batches, *, read_committed, check_crcs, max_batch_bytes
    ))]
    fn new(
        topic: Py<PyString>,
        partition: i32,
        fetch_offset: i64,
        batches: &Batches,
        read_committed: bool,
        check_crcs: bool,
        max_batch_bytes: usize,
    ) -> Self {
        let options = DecodeOptions { read_committed, check_crcs, max_batch_bytes };
        let ahead = batches.open(&options);
        let unpacked: usize = ahead.segments.iter().map(memory_of).sum();
        let behind = batches.last_offset().map_or(fetch_offset, |last| last.saturating_add(1));
        RecordReader {
            owner: Arc::new(Owner { topic, partition }),
            exhausted: ahead.segments.is_empty() && ahead.decoder.finished(),
            segments: ahead.segments,
            decoder: ahead.decoder,
            current: None,
            current_end: fetch_offset,
            failed: None,
            size_bytes: batches.size_bytes() + unpacked,
            end_offset: fetch_offset.max(behind),
            next_offset: fetch_offset,
            leader_epoch: -1,
            taken_bytes: 0,
        }
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
    fn take(
        &mut self,
        py: Python<'_>,
        max_records: usize,
        max_bytes: Option<usize>,
    ) -> PyResult<Records> {
        let mut taken = Records::empty(Arc::clone(&self.owner));
        let mut room = Room { records: max_records, bytes: max_bytes, first: true };
        while room.records > 0 && !self.exhausted {
            if self.current.is_none()
                && let Err(problem) = self.open_batch(py)
            {
                // What stands before the bad batch goes out first; the next call meets it again.
                return if taken.is_empty() { Err(self.error(py, problem)) } else { Ok(taken) };
            }
            self.take_from_batch(&mut room, &mut taken);
            if self.current.is_some() || room.is_full() {
                break;
            }
        }
        Ok(taken)
    }
}

impl RecordReader {
    fn take_from_batch(&mut self, room: &mut Room, taken: &mut Records) {
        let Some((columns, start)) = self.current.take() else { return };
        let (stop, bytes) = room.fill(&columns, start);
        room.records -= stop - start;
        self.taken_bytes += bytes;
        if stop < columns.rows.len() {
            if stop > start {
                self.next_offset = columns.offset(stop - 1) + 1;
            }
            self.current = Some((Arc::clone(&columns), stop));
        } else {
            self.next_offset = self.next_offset.max(self.current_end);
            self.exhausted = self.segments.is_empty() && self.decoder.finished();
        }
        if start < stop {
            taken.push(Piece { columns, start, stop });
        }
    }

    /// Stands at the first record of the next batch that is wanted.
    fn open_batch(&mut self, py: Python<'_>) -> Result<(), Problem> {
        if self.segments.is_empty() {
            self.decode_some(py)?;
        }
        let Some(segment) = self.segments.pop_front() else { return Ok(()) };
        let columns = segment.columns;
        let _ = columns.owner.set(Arc::clone(&self.owner));
        self.current_end = segment.last_offset.saturating_add(1);
        self.leader_epoch = columns.leader_epoch;
        let wanted = self.next_offset - columns.base_offset;
        let from = columns.rows.partition_point(|row| i64::from(row.offset_delta) < wanted);
        self.current = Some((columns, from));
        Ok(())
    }

    fn decode_some(&mut self, py: Python<'_>) -> Result<(), Problem> {
        if let Some(problem) = &self.failed {
            return Err(problem.clone());
        }
        let (decoder, segments) = (&mut self.decoder, &mut self.segments);
        let problem = py.detach(|| {
            let mut size = 0;
            while size < AT_ONCE_BYTES {
                match decoder.next() {
                    Some(Ok(segment)) => {
                        size += memory_of(&segment);
                        segments.push_back(segment);
                    }
                    Some(Err(problem)) => return Some(problem),
                    None => return None,
                }
            }
            None
        });
        self.failed = problem;
        match &self.failed {
            Some(problem) if self.segments.is_empty() => Err(problem.clone()),
            _ => Ok(()),
        }
    }

    fn error(&self, py: Python<'_>, problem: Problem) -> PyErr {
        let (topic, partition) = (self.owner.topic.bind(py), self.owner.partition);
        let at = self.next_offset;
        let text = |problem| {
            format!(
                "cannot read {topic}-{partition} at offset {at}: {problem}; seek past it to go on"
            )
        };
        match problem {
            Problem::Corrupt(problem) => CorruptRecordError::new_err(text(problem)),
            Problem::Codec(problem) => UnsupportedCodecError::new_err(text(problem)),
        }
    }
}

fn memory_of(segment: &Segment) -> usize {
    segment.unpacked_bytes + segment.columns.rows.len() * size_of::<Row>()
}
