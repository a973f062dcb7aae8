//! Walks over the headers of record batches; the counterpart of records/batches.py.
//!
//! Every format begins with an offset and a length and has its version at byte 16, so that the
//! walk steps from header to header. The broker may cut the last batch short.

/// Bytes before a batch's own length counts.
const LENGTH_END: usize = 12;
const MAGIC_AT: usize = 16;
/// Below so many bytes there is no magic to look at, let alone a batch.
const SHORTEST: usize = MAGIC_AT + 1;
/// Where the records of a v2 batch begin.
pub const HEADER_SIZE: usize = 61;
/// What the shortest message of v0 has: its header, and two lengths.
const SHORTEST_V0: usize = 18 + 8;
const SHORTEST_V1: usize = 26 + 8;

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

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// Where the batches that can be handed out end.
    pub end: usize,
    /// Offset of the last record of the last one of them.
    pub last_offset: Option<i64>,
    /// Why the walk ended before the bytes did; a batch that the broker cut short is no problem.
    pub problem: Option<String>,
    /// There are messages of format v0 or v1: the Python implementation reads the rest.
    pub legacy: bool,
}

/// Walks over all headers. The CRC covers neither a batch's offset nor its length, so the walk
/// checks that they fit each other and the high watermark (0 or less: unknown).
pub fn walk(data: &[u8], high_watermark: i64) -> Walk {
    let mut found = Walk::default();
    let mut before_last: Option<(BatchHeader, Option<i64>)> = None;
    while data.len() - found.end >= SHORTEST {
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
                // Either of the two may be wrong.
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
            "{} bytes hold no complete batch, so there is no going on; \
             raise max_partition_fetch_bytes above the size of the largest batch",
            data.len()
        ));
    }
    found
}

/// Says what is wrong with the first batches as the answer to a fetch from `offset` on, if
/// anything is: a broker begins with the batch that has this offset or the next one there is.
pub fn check_beginning(
    data: &[u8],
    walk: &Walk,
    offset: i64,
    high_watermark: i64,
) -> Option<String> {
    let mut behind = None;
    let mut start = 0;
    while start < walk.end {
        let Ok(Step::Batch(header)) = read_header(data, start) else { return None };
        if header.last_offset >= offset {
            return match behind {
                _ if header.base_offset <= offset => None,
                Some(base_offset) => Some(gap(base_offset, offset, header.base_offset)),
                None if is_beyond(header.base_offset, offset, high_watermark) => {
                    Some(beyond(header.base_offset, high_watermark))
                }
                None => None,
            };
        }
        behind = Some(header.base_offset);
        start += header.size;
    }
    None
}

/// A gap is what compaction leaves, but never up to the high watermark or beyond it. (Without a
/// gap it may be: the broker reads its high watermark before it reads the log.)
fn is_beyond(base_offset: i64, expected: i64, high_watermark: i64) -> bool {
    high_watermark > 0 && base_offset >= high_watermark && base_offset > expected
}

const GARBLED: &str = "the response was garbled, or the log is broken; a seek to this offset \
                       fetches it again";

fn overlap(first: i64, second: i64) -> String {
    format!("the batches at offsets {first} and {second} overlap: {GARBLED}")
}

fn beyond(base_offset: i64, high_watermark: i64) -> String {
    format!(
        "the batch at offset {base_offset} is not below the high watermark {high_watermark}: {GARBLED}"
    )
}

fn gap(behind: i64, offset: i64, next: i64) -> String {
    format!(
        "the batch at offset {behind} is before offset {offset}, and the next one begins at \
         {next}: {GARBLED}"
    )
}

/// What stands at a place in a partition's bytes.
pub enum Step {
    Batch(BatchHeader),
    Legacy,
    CutShort,
}

pub fn read_header(data: &[u8], start: usize) -> Result<Step, String> {
    let rest = &data[start..];
    let length = i32::from_be_bytes(field(rest, 8));
    let Ok(length_left) = usize::try_from(length) else {
        return Err(format!("a batch length is {length}"));
    };
    let size = LENGTH_END + length_left;
    if size > rest.len() {
        return Ok(Step::CutShort);
    }
    if size < SHORTEST {
        return Err(format!("a batch length is {length}"));
    }
    match rest[MAGIC_AT] as i8 {
        2 if size < HEADER_SIZE => {
            Err(format!("a batch of {size} bytes is shorter than its header"))
        }
        2 => read_v2(&rest[..size], start).map(Step::Batch),
        magic @ (0 | 1) => {
            let shortest = if magic == 0 { SHORTEST_V0 } else { SHORTEST_V1 };
            if size < shortest {
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
    // The offset behind the last record must be one too.
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

/// The `N` bytes at `at`; the caller has looked that they are there.
fn field<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data[at..at + N].try_into().expect("a slice of N bytes")
}
