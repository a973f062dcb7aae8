//! Batch after batch: CRC, decompression, transactions, rows.

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

/// The CRC covers all from the attributes on (not the offset, which a broker sets).
const CRC_COVERS_FROM: usize = 21;

/// Small batches share their columns until they have so many records: columns of their own would
/// cost more memory than a record.
const RUN_RECORDS: usize = 256;

/// Records as the user is to see them: one batch, a part of a large one, or several small ones.
/// Without records where a batch is a marker or aborted.
pub struct Segment {
    pub columns: Arc<Columns>,
    /// The position behind these records.
    pub next_offset: i64,
    /// Memory of the decompressed batch, with its first part.
    pub unpacked_bytes: usize,
    /// The batch has no further part.
    pub ends_batch: bool,
    /// Of what is decoded before anyone asks for it.
    pub charge: Option<Charge>,
}

impl Segment {
    /// Memory of the rows, and of what belongs to them.
    pub fn rows_bytes(&self) -> usize {
        self.columns.rows_bytes() + size_of::<Segment>()
    }
}

/// A batch of which not every part is decoded.
struct Open {
    header: BatchHeader,
    data: Arc<Buffer>,
    cursor: Cursor,
}

/// Decodes a partition's batches in order, and remembers which transactions are aborted.
pub struct Decoder {
    pub options: DecodeOptions,
    /// The partition's bytes; batches are handed out up to `end`.
    data: Slice,
    end: usize,
    problem: Option<String>,
    /// Where the next batch begins.
    at: usize,
    open: Option<Open>,
    /// Aborted transactions still to begin, the first one last: producer id and first offset.
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

    /// True when there is neither a batch nor a problem to come.
    pub fn finished(&self) -> bool {
        self.stopped() && self.problem.is_none()
    }

    /// True when all batches are decoded.
    pub fn stopped(&self) -> bool {
        self.open.is_none() && self.at == self.end
    }

    /// Hands out no batch at all, for that reason.
    pub fn refuse(&mut self, problem: String) {
        self.problem = Some(problem);
        (self.open, self.at, self.end) = (None, 0, 0);
    }

    /// Decodes what comes next; after a problem the same one comes again.
    #[allow(clippy::should_implement_trait)] // an iterator would have ended with its problem
    pub fn next(&mut self) -> Option<Result<Segment, Problem>> {
        self.next_within(self.options.max_decompressed_batch_bytes)
    }

    /// The same for a batch that decompresses to `max_bytes` at most; others are a problem, and
    /// may come next time.
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

    /// The header of the next batch.
    fn peek(&self) -> Option<BatchHeader> {
        if self.at == self.end {
            return None;
        }
        match read_header(&self.data, self.at) {
            Ok(Step::Batch(header)) => Some(header),
            _ => None, // the walk has seen that it is there
        }
    }

    fn begin(&mut self, header: &BatchHeader, max_bytes: usize) -> Result<Segment, Problem> {
        self.check_crc(header)?;
        let hidden = self.hides(header);
        if header.control() {
            self.note_marker(header)?;
        }
        if hidden || header.control() {
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

    /// Decodes a further part of a batch.
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

    /// Makes a segment of rows; keeps the batch open unless these were the last ones.
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

    /// Appends the rows of small batches behind a small one. Only the last of a run may have a
    /// gap at its end: the position behind any other record is the next offset.
    fn extend_run(&mut self, first: &BatchHeader, rows: &mut Vec<Row>, last_offset: &mut i64) {
        while rows.len() < RUN_RECORDS
            && let Some(row) = rows.last()
            && first.base_offset + i64::from(row.offset_delta) == *last_offset
            && let Some(header) = self.peek()
            && let Some(shift) = shift_in_run(first, &header)
            && !self.hides(&header)
            && self.check_crc(&header).is_ok()
        {
            let from = self.data.from + header.start;
            let mut cursor = Cursor::new(&header, from + HEADER_SIZE, from + header.size);
            let (count, max_headers) = (rows.len(), self.options.max_record_headers);
            let decoded = cursor.decode_part(&self.data.buffer, &header, shift, max_headers, rows);
            if decoded.is_err() || !cursor.is_done() {
                rows.truncate(count);
                return; // it comes again as the first of its own
            }
            self.at += header.size;
            *last_offset = header.last_offset;
        }
    }

    /// Where the records of a batch are, decompressed if need be.
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

    /// Moves on to a batch and tells whether it belongs to an aborted transaction. May be asked
    /// again about the same one.
    fn hides(&mut self, header: &BatchHeader) -> bool {
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
        // Two 16 bit numbers, the version and the kind; 0 is abort, 1 commit.
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
            "the batch at offset {} fails its CRC (it says {:#010x}, its bytes give {:#010x})",
            header.base_offset, header.crc, found
        )))
    }
}

/// How far the offsets of a batch are from those of the first one of a run; None if it cannot be
/// part of it.
fn shift_in_run(first: &BatchHeader, header: &BatchHeader) -> Option<u32> {
    let alike = header.codec() == 0
        && !header.control()
        && header.leader_epoch == first.leader_epoch
        && header.log_append_time() == first.log_append_time();
    u32::try_from(header.last_offset - first.base_offset).ok().filter(|_| alike)?;
    u32::try_from(header.base_offset - first.base_offset).ok()
}

/// A segment that is a whole batch, decoded from bytes that came so.
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
