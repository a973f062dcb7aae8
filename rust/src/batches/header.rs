//! Walks over the headers of record batches; the counterpart of records/batches.py.
//!
//! Every format begins with an offset and a length, and has its version at byte 16, so the walk can
//! skip from header to header. The broker may truncate the last batch.

/// Bytes of a batch that its length field does not count.
const LENGTH_END: usize = 12;
const MAGIC_AT: usize = 16;
/// Minimum bytes that contain the magic byte; fewer cannot be a batch.
const MIN_BYTES: usize = MAGIC_AT + 1;
/// The position of the records in a v2 batch.
pub const HEADER_SIZE: usize = 61;
/// Size of the minimum v0 message: its header and two lengths.
const MIN_V0: usize = 18 + 8;
const MIN_V1: usize = 26 + 8;

/// The header of one v2 batch; `start` and `size` are in bytes of the partition's data.
#[derive(Clone, Debug)]
pub struct BatchHeader {
    pub start: usize,
    pub size: usize,
    pub base_offset: i64,
    pub last_offset: i64,
    pub leader_epoch: i32,
    pub crc: u32,
    attributes: i16,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub record_count: usize,
}

impl BatchHeader {
    pub fn codec(&self) -> u8 {
        (self.attributes & 0x07) as u8
    }

    pub fn log_append_time(&self) -> bool {
        self.attributes & 0x08 != 0
    }

    pub fn transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    pub fn control(&self) -> bool {
        self.attributes & 0x20 != 0
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub struct Walk {
    /// The end of the valid batches.
    pub end: usize,
    /// The last offset of the last valid batch.
    pub last_offset: Option<i64>,
    /// Why the walk ended before the data; a batch truncated by the broker is not a problem.
    pub problem: Option<String>,
    /// The data has messages of format v0 or v1, which only the Python implementation reads.
    pub legacy: bool,
}

/// Walks over all headers. The CRC covers neither a batch's offset nor its length, so the walk
/// checks that they fit each other and the high watermark (0 or less: unknown).
pub fn walk(data: &[u8], high_watermark: i64) -> Walk {
    let mut found = Walk::default();
    let mut before_last: Option<(BatchHeader, Option<i64>)> = None;
    while data.len() - found.end >= MIN_BYTES {
        let header = match read_header(data, found.end) {
            Ok(Step::Batch(header)) => header,
            Ok(Step::Legacy) => {
                found.legacy = true;
                return found;
            }
            Ok(Step::CutShort) => break,
            Err(problem) => {
                found.problem = Some(problem);
                return found;
            }
        };
        if let Some((previous, offset_before)) = &before_last {
            if header.base_offset <= previous.last_offset {
                found.problem = Some(overlap(previous.base_offset, header.base_offset));
                // Either of the two batches may be wrong.
                (found.end, found.last_offset) = (previous.start, *offset_before);
                return found;
            }
            if is_beyond(header.base_offset, previous.last_offset + 1, high_watermark) {
                found.problem = Some(beyond(header.base_offset, high_watermark));
                return found;
            }
        }
        let offset_before = found.last_offset.replace(header.last_offset);
        found.end += header.size;
        before_last = Some((header, offset_before));
    }
    if !data.is_empty() && found.end == 0 {
        found.problem = Some(format!(
            "{} bytes hold no complete batch, so no record can be read; \
             raise max_partition_fetch_bytes above the size of the largest batch",
            data.len()
        ));
    }
    found
}

/// Checks the first batches of a response to a fetch from `offset`. A broker begins with the batch
/// that contains this offset, or with the next one.
pub fn check_beginning(
    data: &[u8],
    walk: &Walk,
    offset: i64,
    high_watermark: i64,
) -> Option<String> {
    let mut previous = None;
    let mut start = 0;
    while start < walk.end {
        let Ok(Step::Batch(header)) = read_header(data, start) else { return None };
        if header.last_offset >= offset {
            return match previous {
                _ if header.base_offset <= offset => None,
                Some(base_offset) => Some(gap(base_offset, offset, header.base_offset)),
                None if is_beyond(header.base_offset, offset, high_watermark) => {
                    Some(beyond(header.base_offset, high_watermark))
                }
                None => None,
            };
        }
        previous = Some(header.base_offset);
        start += header.size;
    }
    None
}

/// Compaction leaves gaps, but a gap never reaches the high watermark. A batch without a gap may be
/// beyond the high watermark, because the broker reads it before the log.
fn is_beyond(base_offset: i64, expected: i64, high_watermark: i64) -> bool {
    high_watermark > 0 && base_offset >= high_watermark && base_offset > expected
}

const CORRUPT: &str = "the response or the log is corrupt; seek to this offset to fetch it again";

fn overlap(first: i64, second: i64) -> String {
    format!("the batches at offsets {first} and {second} overlap: {CORRUPT}")
}

fn beyond(base_offset: i64, high_watermark: i64) -> String {
    format!(
        "the batch at offset {base_offset} is not below the high watermark {high_watermark}: {CORRUPT}"
    )
}

fn gap(previous: i64, offset: i64, next: i64) -> String {
    format!(
        "the batch at offset {previous} is before offset {offset}, and the next one begins at \
         {next}: {CORRUPT}"
    )
}

/// The element at a position in a partition's data.
pub enum Step {
    Batch(BatchHeader),
    Legacy,
    CutShort,
}

pub fn read_header(data: &[u8], start: usize) -> Result<Step, String> {
    let rest = &data[start..];
    let length = i32::from_be_bytes(field(rest, 8));
    let Ok(length_left) = usize::try_from(length) else {
        return Err(format!("a batch has the length {length}"));
    };
    let size = LENGTH_END + length_left;
    if size > rest.len() {
        return Ok(Step::CutShort);
    }
    if size < MIN_BYTES {
        return Err(format!("a batch has the length {length}"));
    }
    match rest[MAGIC_AT] as i8 {
        2 if size < HEADER_SIZE => {
            Err(format!("a batch of {size} bytes is shorter than its header"))
        }
        2 => read_v2(&rest[..size], start).map(Step::Batch),
        magic @ (0 | 1) => {
            let minimum = if magic == 0 { MIN_V0 } else { MIN_V1 };
            if size < minimum {
                return Err(format!("a message of {size} bytes is shorter than its header"));
            }
            Ok(Step::Legacy)
        }
        _ => Err(format!("unknown message format v{}", rest[MAGIC_AT])),
    }
}

fn read_v2(batch: &[u8], start: usize) -> Result<BatchHeader, String> {
    let base_offset = i64::from_be_bytes(field(batch, 0));
    let delta = i32::from_be_bytes(field(batch, 23));
    let count = i32::from_be_bytes(field(batch, 57));
    // The offset after the last record must be valid, too.
    let last_offset = base_offset.checked_add(i64::from(delta)).filter(|last| *last < i64::MAX);
    let (Some(last_offset), Ok(record_count), true) =
        (last_offset, usize::try_from(count), base_offset >= 0 && delta >= 0)
    else {
        return Err(format!(
            "a batch header with offset {base_offset}, last offset delta {delta} \
             and {count} records"
        ));
    };
    Ok(BatchHeader {
        start,
        size: batch.len(),
        base_offset,
        last_offset,
        leader_epoch: i32::from_be_bytes(field(batch, 12)),
        crc: u32::from_be_bytes(field(batch, 17)),
        attributes: i16::from_be_bytes(field(batch, 21)),
        base_timestamp: i64::from_be_bytes(field(batch, 27)),
        max_timestamp: i64::from_be_bytes(field(batch, 35)),
        producer_id: i64::from_be_bytes(field(batch, 43)),
        record_count,
    })
}

/// The `N` bytes at `at`; the caller has checked that they exist.
fn field<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data[at..at + N].try_into().expect("a slice of N bytes")
}
