//! Decodes batches: CRC, decompression, transactions, rows.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use crate::batches::budget::Charge;
use crate::batches::columns::{Columns, Row};
use crate::batches::compression::decompress;
use crate::batches::header::{BatchHeader, HEADER_SIZE, Step, Walk, read_header};
use crate::batches::problem::Problem;
use crate::batches::rows::Cursor;
use crate::buffer::{Buffer, Slice};
use crate::options::DecodeOptions;

/// The CRC covers the bytes from the attributes on (not the offset, which the broker sets).
const CRC_COVERS_FROM: usize = 21;

/// Small batches share columns up to this number of records, because separate columns would need
/// more memory than a record.
const RUN_RECORDS: usize = 256;

/// Decoded records: of one batch, a part of a large batch, or several small batches.
/// Empty if the batch is a marker or aborted.
pub struct Segment {
    pub columns: Arc<Columns>,
    /// The position after these records.
    pub next_offset: i64,
    /// Memory of the decompressed batch; counted with its first part.
    pub unpacked_bytes: usize,
    /// The batch has no further part.
    pub ends_batch: bool,
    /// The share of the budget for decoding ahead.
    pub charge: Option<Charge>,
}

impl Segment {
    /// Memory of the rows and their data.
    pub fn rows_bytes(&self) -> usize {
        self.columns.rows_bytes() + size_of::<Segment>()
    }
}

/// A batch that is not completely decoded yet.
struct Open {
    header: BatchHeader,
    data: Arc<Buffer>,
    cursor: Cursor,
}

/// Decodes a partition's batches in order, and tracks aborted transactions.
pub struct Decoder {
    pub options: DecodeOptions,
    /// The partition's data; batches are decoded up to `end`.
    data: Slice,
    end: usize,
    problem: Option<String>,
    /// The position of the next batch.
    at: usize,
    open: Option<Open>,
    /// Aborted transactions that begin later, in reverse order: producer id and first offset.
    coming: Vec<(i64, i64)>,
    /// Producers inside an aborted transaction.
    aborting: HashSet<i64>,
}

impl Decoder {
    pub fn new(data: Slice, walk: &Walk, aborted: &[(i64, i64)], options: DecodeOptions) -> Self {
        let mut coming = if options.read_committed { aborted.to_vec() } else { Vec::new() };
        coming.sort_by_key(|(_, first_offset)| -*first_offset);
        let (end, problem) = (walk.end, walk.problem.clone());
        let aborting = HashSet::new();
        Decoder { options, data, end, problem, at: 0, open: None, coming, aborting }
    }

    /// True if neither a batch nor a problem remains.
    pub fn finished(&self) -> bool {
        self.stopped() && self.problem.is_none()
    }

    /// True if all batches are decoded.
    pub fn stopped(&self) -> bool {
        self.open.is_none() && self.at == self.end
    }

    /// Makes every decode return this problem.
    pub fn fail(&mut self, problem: String) {
        self.problem = Some(problem);
        (self.open, self.at, self.end) = (None, 0, 0);
    }

    /// Decodes the next segment; after a problem, returns the same problem again.
    #[allow(clippy::should_implement_trait)] // an iterator would end after a problem
    pub fn next(&mut self) -> Option<Result<Segment, Problem>> {
        self.next_within(self.options.max_decompressed_batch_bytes)
    }

    /// Like `next`, but a batch that decompresses to more than `max_bytes` is a problem. A later call
    /// may accept it.
    pub fn next_within(&mut self, max_bytes: usize) -> Option<Result<Segment, Problem>> {
        if let Some(open) = self.open.take() {
            return Some(self.next_part(open));
        }
        let Some(header) = self.peek() else {
            return self.problem.clone().map(|problem| Err(Problem::Corrupt(problem)));
        };
        let max_bytes = max_bytes.min(self.options.max_decompressed_batch_bytes);
        Some(self.begin(&header, max_bytes).map_err(|problem| problem.about(&header, max_bytes)))
    }

    /// The offset after the batch that is decoded next; None without a valid header.
    pub fn end_of_batch(&self) -> Option<i64> {
        let header = self.open.as_ref().map(|open| open.header.clone()).or_else(|| self.peek());
        header.map(|header| header.last_offset + 1)
    }

    /// The header of the next batch.
    fn peek(&self) -> Option<BatchHeader> {
        if self.at == self.end {
            return None;
        }
        match read_header(&self.data, self.at) {
            Ok(Step::Batch(header)) => Some(header),
            _ => None, // unreachable: the walk has checked it
        }
    }

    fn begin(&mut self, header: &BatchHeader, max_bytes: usize) -> Result<Segment, Problem> {
        self.check_crc(header)?;
        let aborted = self.is_aborted(header);
        if header.control() {
            self.note_marker(header)?;
        }
        if aborted || header.control() {
            self.at += header.size;
            return Ok(segment(
                header,
                self.data.buffer.clone(),
                Vec::new(),
                header.last_offset + 1,
            ));
        }
        let (data, from, to) = self.records_of(header, max_bytes)?;
        let mut open = Open { header: header.clone(), data, cursor: Cursor::new(header, from, to) };
        let mut rows = Vec::new();
        self.decode_part(&mut open, &mut rows)?;
        self.at += header.size;
        let unpacked_bytes = if header.codec() == 0 { 0 } else { open.data.capacity() };
        let mut last_offset = header.last_offset;
        if open.cursor.is_done() && header.codec() == 0 {
            self.extend_run(header, &mut rows, &mut last_offset);
        }
        let mut segment = self.part(open, rows, last_offset);
        segment.unpacked_bytes = unpacked_bytes;
        Ok(segment)
    }

    fn decode_part(&self, open: &mut Open, rows: &mut Vec<Row>) -> Result<(), Problem> {
        let max_headers = self.options.max_record_headers;
        Ok(open.cursor.decode_part(&open.data, &open.header, 0, max_headers, rows)?)
    }

    /// Decodes the next part of a batch.
    fn next_part(&mut self, mut open: Open) -> Result<Segment, Problem> {
        let (before, mut rows) = (open.cursor.clone(), Vec::new());
        if let Err(problem) = self.decode_part(&mut open, &mut rows) {
            open.cursor = before;
            self.open = Some(open);
            return Err(problem);
        }
        let last_offset = open.header.last_offset;
        Ok(self.part(open, rows, last_offset))
    }

    /// Creates a segment of rows; keeps the batch open unless these are its last rows.
    fn part(&mut self, open: Open, rows: Vec<Row>, last_offset: i64) -> Segment {
        let ends_batch = open.cursor.is_done();
        let last_offset = match rows.last() {
            Some(row) if !ends_batch => open.header.base_offset + i64::from(row.offset_delta),
            _ => last_offset,
        };
        let mut segment = segment(&open.header, open.data.clone(), rows, last_offset + 1);
        segment.ends_batch = ends_batch;
        if !ends_batch {
            self.open = Some(open);
        }
        segment
    }

    /// Appends the rows of small batches to a small one. Only the last batch may have a gap at its end,
    /// because the position after any other record must be the next offset.
    fn extend_run(&mut self, first: &BatchHeader, rows: &mut Vec<Row>, last_offset: &mut i64) {
        while rows.len() < RUN_RECORDS
            && let Some(row) = rows.last()
            && first.base_offset + i64::from(row.offset_delta) == *last_offset
            && let Some(header) = self.peek()
            && let Some(shift) = shift_in_run(first, &header)
            && !self.is_aborted(&header)
            && self.check_crc(&header).is_ok()
        {
            let from = self.data.from + header.start;
            let mut cursor = Cursor::new(&header, from + HEADER_SIZE, from + header.size);
            let (count, max_headers) = (rows.len(), self.options.max_record_headers);
            let decoded = cursor.decode_part(&self.data.buffer, &header, shift, max_headers, rows);
            if decoded.is_err() || !cursor.is_done() {
                rows.truncate(count);
                return; // the next call decodes it separately
            }
            self.at += header.size;
            *last_offset = header.last_offset;
        }
    }

    /// Returns the records of a batch, decompressed if necessary.
    fn records_of(
        &self,
        header: &BatchHeader,
        max_bytes: usize,
    ) -> Result<(Arc<Buffer>, usize, usize), Problem> {
        let from = self.data.from + header.start + HEADER_SIZE;
        let to = self.data.from + header.start + header.size;
        if header.codec() == 0 {
            return Ok((self.data.buffer.clone(), from, to));
        }
        let data = decompress(header.codec(), &self.data.buffer[from..to], max_bytes)?;
        let length = data.len();
        Ok((Arc::new(Buffer::new(data)), 0, length))
    }

    /// Advances to a batch, and returns whether it belongs to an aborted transaction. May be called
    /// again for the same batch.
    fn is_aborted(&mut self, header: &BatchHeader) -> bool {
        while let Some(&(producer_id, first_offset)) = self.coming.last() {
            if first_offset > header.last_offset {
                break;
            }
            self.aborting.insert(producer_id);
            self.coming.pop();
        }
        header.transactional() && self.aborting.contains(&header.producer_id)
    }

    /// An abort marker ends its producer's transaction.
    fn note_marker(&mut self, header: &BatchHeader) -> Result<(), Problem> {
        if !self.options.read_committed || header.record_count == 0 {
            return Ok(());
        }
        let max_bytes = self.options.max_decompressed_batch_bytes;
        let (data, from, to) = self.records_of(header, max_bytes)?;
        let mut open = Open { header: header.clone(), data, cursor: Cursor::new(header, from, to) };
        let mut rows = Vec::new();
        self.decode_part(&mut open, &mut rows)?;
        let marker = segment(header, open.data, rows, header.last_offset + 1).columns;
        let key = marker.bytes(marker.rows[0].key);
        // Two 16-bit numbers, the version and the type; type 0 is abort, 1 is commit.
        if key.is_some_and(|key| key.get(2..4) == Some(&[0, 0])) {
            self.aborting.remove(&header.producer_id);
        }
        Ok(())
    }

    fn check_crc(&self, header: &BatchHeader) -> Result<(), Problem> {
        if !self.options.check_crcs {
            return Ok(());
        }
        let batch = &self.data[header.start..header.start + header.size];
        let found = crc32c::crc32c(&batch[CRC_COVERS_FROM..]);
        if found == header.crc {
            return Ok(());
        }
        Err(Problem::Corrupt(format!(
            "the batch at offset {} fails its CRC (stored {:#010x}, computed {:#010x})",
            header.base_offset, header.crc, found
        )))
    }
}

/// The distance of a batch's offsets from those of the first batch; None if it cannot be appended.
fn shift_in_run(first: &BatchHeader, header: &BatchHeader) -> Option<u32> {
    let alike = header.codec() == 0
        && !header.control()
        && header.leader_epoch == first.leader_epoch
        && header.log_append_time() == first.log_append_time();
    u32::try_from(header.last_offset - first.base_offset).ok().filter(|_| alike)?;
    u32::try_from(header.base_offset - first.base_offset).ok()
}

/// A segment with a complete, uncompressed batch.
fn segment(
    header: &BatchHeader,
    data: Arc<Buffer>,
    mut rows: Vec<Row>,
    next_offset: i64,
) -> Segment {
    if rows.capacity() - rows.len() > rows.len() / 4 {
        rows.shrink_to_fit();
    }
    let columns = Columns {
        data,
        base_offset: header.base_offset,
        leader_epoch: header.leader_epoch,
        log_append_time: header.log_append_time(),
        rows,
        owner: OnceLock::new(),
    };
    let columns = Arc::new(columns);
    Segment { columns, next_offset, unpacked_bytes: 0, ends_batch: true, charge: None }
}
