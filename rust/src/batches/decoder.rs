//! Batch after batch: CRC, decompression, transactions, rows.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use crate::batches::columns::{Columns, Row};
use crate::batches::compression::decompress;
use crate::batches::header::{BatchHeader, HEADER_SIZE, Walk};
use crate::batches::problem::Problem;
use crate::batches::rows;
use crate::buffer::Buffer;
use crate::options::DecodeOptions;

/// The CRC covers all from the attributes on (not the offset, which a broker sets).
const CRC_COVERS_FROM: usize = 21;

/// One batch as the user is to see it: without records where it is a marker or aborted.
pub struct Segment {
    pub columns: Arc<Columns>,
    pub last_offset: i64,
    /// Memory that decompressing it took.
    pub unpacked_bytes: usize,
}

/// Decodes a partition's batches in order, and remembers which transactions are aborted.
pub struct Decoder {
    pub options: DecodeOptions,
    frame: Arc<Buffer>,
    from: usize,
    walk: Arc<Walk>,
    index: usize,
    /// Aborted transactions still to begin, the first one last: producer id and first offset.
    coming: Vec<(i64, i64)>,
    /// Producers inside an aborted transaction.
    open: HashSet<i64>,
}

impl Decoder {
    pub fn new(
        frame: Arc<Buffer>,
        from: usize,
        walk: Arc<Walk>,
        aborted: &[(i64, i64)],
        options: DecodeOptions,
    ) -> Self {
        let mut coming = if options.read_committed { aborted.to_vec() } else { Vec::new() };
        coming.sort_by_key(|(_, first_offset)| -*first_offset);
        Decoder { options, frame, from, walk, index: 0, coming, open: HashSet::new() }
    }

    /// True when there is neither a batch nor a problem to come.
    pub fn finished(&self) -> bool {
        self.stopped() && self.walk.problem.is_none()
    }

    /// True when all batches are decoded.
    pub fn stopped(&self) -> bool {
        self.index == self.walk.headers.len()
    }

    /// Decodes the next batch; after a problem the same one comes again.
    #[allow(clippy::should_implement_trait)] // an iterator would have ended with its problem
    pub fn next(&mut self) -> Option<Result<Segment, Problem>> {
        let walk = Arc::clone(&self.walk);
        let Some(header) = walk.headers.get(self.index) else {
            return walk.problem.clone().map(|problem| Err(Problem::Corrupt(problem)));
        };
        let decoded = self.decode(header);
        if decoded.is_ok() {
            self.index += 1;
        }
        Some(decoded)
    }

    fn decode(&mut self, header: &BatchHeader) -> Result<Segment, Problem> {
        let start = self.from + header.start;
        if self.options.check_crcs {
            check_crc(header, &self.frame[start..start + header.size])?;
        }
        let hidden = self.hides(header);
        if header.control() {
            self.note_marker(header)?;
        }
        if hidden || header.control() {
            return Ok(self.segment(header, self.frame.clone(), Vec::new(), 0));
        }
        let (data, from, to) = self.records_of(header)?;
        let rows = rows::decode(&data, from, to, header)?;
        let unpacked = if header.codec() == 0 { 0 } else { data.len() };
        Ok(self.segment(header, data, rows, unpacked))
    }

    /// Where the records of a batch are, decompressed if need be.
    fn records_of(&self, header: &BatchHeader) -> Result<(Arc<Buffer>, usize, usize), Problem> {
        let from = self.from + header.start + HEADER_SIZE;
        let to = self.from + header.start + header.size;
        if header.codec() == 0 {
            return Ok((self.frame.clone(), from, to));
        }
        let packed = &self.frame[from..to];
        let data = decompress(header.codec(), packed, self.options.max_batch_bytes)?;
        let length = data.len();
        Ok((Arc::new(Buffer::new(data)), 0, length))
    }

    fn segment(
        &self,
        header: &BatchHeader,
        data: Arc<Buffer>,
        rows: Vec<Row>,
        unpacked_bytes: usize,
    ) -> Segment {
        let columns = Columns {
            data,
            base_offset: header.base_offset,
            leader_epoch: header.leader_epoch,
            log_append_time: header.log_append_time(),
            rows,
            owner: OnceLock::new(),
        };
        Segment { columns: Arc::new(columns), last_offset: header.last_offset, unpacked_bytes }
    }

    /// Moves on to a batch and tells whether it belongs to an aborted transaction.
    fn hides(&mut self, header: &BatchHeader) -> bool {
        while let Some(&(producer_id, first_offset)) = self.coming.last() {
            if first_offset > header.last_offset {
                break;
            }
            self.open.insert(producer_id);
            self.coming.pop();
        }
        header.transactional() && self.open.contains(&header.producer_id)
    }

    /// An abort marker ends its producer's transaction.
    fn note_marker(&mut self, header: &BatchHeader) -> Result<(), Problem> {
        if !self.options.read_committed || header.record_count == 0 {
            return Ok(());
        }
        let (data, from, to) = self.records_of(header)?;
        let rows = rows::decode(&data, from, to, header)?;
        let marker = self.segment(header, data, rows, 0).columns;
        let key = marker.bytes(marker.rows[0].key);
        // Two 16 bit numbers, the version and the kind; 0 is abort, 1 commit.
        if key.is_some_and(|key| key.get(2..4) == Some(&[0, 0])) {
            self.open.remove(&header.producer_id);
        }
        Ok(())
    }
}

fn check_crc(header: &BatchHeader, batch: &[u8]) -> Result<(), Problem> {
    let found = crc32c::crc32c(&batch[CRC_COVERS_FROM..]);
    if found == header.crc {
        return Ok(());
    }
    Err(Problem::Corrupt(format!(
        "the batch at offset {} fails its CRC (it says {:#010x}, its bytes give {:#010x})",
        header.base_offset, header.crc, found
    )))
}
