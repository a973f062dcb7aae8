//! Decompresses a batch, never to more bytes than allowed; the twin of records/compression.py.

use std::cell::RefCell;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use zstd::zstd_safe::{self, DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::batches::problem::Problem;
use crate::buffer;

/// First guess at the decompressed size, as a multiple of the compressed one.
const GUESS: usize = 4;
const LEAST: usize = 1 << 14;

/// What the Java client's snappy stream begins with; versions follow that say nothing.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const XERIAL_HEADER_SIZE: usize = 16;
/// No snappy element makes more of its bytes than this: a copy of 64 bytes takes 3.
const SNAPPY_RATIO: usize = 22;

thread_local! {
    /// Making a context costs more than decompressing a small batch.
    static ZSTD: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// What is wrong with compressed data.
enum Flaw {
    Broken(String),
    TooLarge,
}

impl<T: ToString> From<T> for Flaw {
    fn from(text: T) -> Self {
        Flaw::Broken(text.to_string())
    }
}

/// Returns the decompressed bytes, concatenated frames included.
pub fn decompress(codec: u8, data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let (name, unpacked) = match codec {
        1 => ("gzip", gzip(data, max_bytes)),
        2 => ("snappy", snappy(data, max_bytes)),
        3 => ("lz4", lz4(data, max_bytes)),
        4 => ("zstd", zstandard(data, max_bytes)),
        _ => return Err(Problem::Codec(format!("compression codec {codec} is unknown"))),
    };
    unpacked.map_err(|flaw| {
        Problem::Corrupt(match flaw {
            Flaw::Broken(text) => format!("broken {name} data: {text}"),
            Flaw::TooLarge => {
                format!("it decompresses to more than the {max_bytes} bytes allowed")
            }
        })
    })
}

fn first_room(data: &[u8], max_bytes: usize) -> Vec<u8> {
    buffer::claim((data.len().saturating_mul(GUESS)).max(LEAST).min(max_bytes))
}

/// Reads a stream to its end, and stops when there is more than allowed.
fn read_stream(stream: impl Read, max_bytes: usize, into: &mut Vec<u8>) -> Result<(), Flaw> {
    let room = (max_bytes + 1).saturating_sub(into.len()) as u64;
    stream.take(room).read_to_end(into)?;
    if into.len() > max_bytes { Err(Flaw::TooLarge) } else { Ok(()) }
}

fn gzip(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    let mut unpacked = first_room(data, max_bytes);
    read_stream(MultiGzDecoder::new(data), max_bytes, &mut unpacked)?;
    Ok(unpacked)
}

fn lz4(mut data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    let mut unpacked = first_room(data, max_bytes);
    // One frame in each turn.
    while !data.is_empty() {
        let before = data.len();
        read_stream(FrameDecoder::new(&mut data), max_bytes, &mut unpacked)?;
        if data.len() == before {
            return Err("a frame does not begin".into());
        }
    }
    Ok(unpacked)
}

fn zstandard(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    ZSTD.with_borrow_mut(|kept| {
        let mut context = match kept.take() {
            Some(context) => context,
            None => DCtx::try_create().ok_or("no memory")?,
        };
        let unpacked = zstd_frames(&mut context, data, max_bytes);
        // After an error the context is in mid-frame; the next batch makes a new one.
        if unpacked.is_ok() && context.reset(ResetDirective::SessionOnly).is_ok() {
            *kept = Some(context);
        }
        unpacked
    })
}

fn zstd_frames(context: &mut DCtx<'_>, data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    let mut unpacked = first_room(data, max_bytes);
    let mut input = InBuffer::around(data);
    loop {
        if unpacked.len() == unpacked.capacity() {
            unpacked.reserve(unpacked.len().max(LEAST));
        }
        let (read, written) = (input.pos(), unpacked.len());
        let wanted = {
            let mut output = OutBuffer::around_pos(&mut unpacked, written);
            context.decompress_stream(&mut output, &mut input).map_err(zstd_safe::get_error_name)?
        };
        if unpacked.len() > max_bytes {
            return Err(Flaw::TooLarge);
        }
        let at_end = input.pos() == data.len();
        if at_end && wanted == 0 {
            return Ok(unpacked);
        }
        let starved = at_end && unpacked.len() < unpacked.capacity();
        if starved || (input.pos() == read && unpacked.len() == written) {
            return Err("a frame is cut short".into());
        }
    }
}

/// A bare block, or the row of blocks that the Java client writes.
fn snappy(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    if !data.starts_with(XERIAL_MAGIC) {
        let mut unpacked = Vec::new();
        snappy_block(data, max_bytes, &mut unpacked)?;
        return Ok(unpacked);
    }
    let mut unpacked = first_room(data, max_bytes);
    let mut rest = data;
    while !rest.is_empty() {
        if rest.starts_with(XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER_SIZE..).unwrap_or_default();
            continue;
        }
        let (length, behind) = rest.split_first_chunk().ok_or("a block is cut short")?;
        let length = i32::from_be_bytes(*length);
        let block = usize::try_from(length).ok().and_then(|length| behind.get(..length));
        let block = block.ok_or_else(|| format!("a block length is {length}"))?;
        snappy_block(block, max_bytes, &mut unpacked)?;
        rest = &behind[block.len()..];
    }
    Ok(unpacked)
}

fn snappy_block(block: &[u8], max_bytes: usize, unpacked: &mut Vec<u8>) -> Result<(), Flaw> {
    let claimed = snap::raw::decompress_len(block)?;
    let from = unpacked.len();
    if claimed > max_bytes.saturating_sub(from) {
        return Err(Flaw::TooLarge);
    }
    if claimed > SNAPPY_RATIO * block.len() {
        return Err(format!("{} bytes claim {claimed}", block.len()).into());
    }
    if unpacked.capacity() - from < claimed {
        let mut larger = buffer::claim((from + claimed).max(2 * from));
        larger.extend_from_slice(unpacked);
        *unpacked = larger;
    }
    unpacked.resize(from + claimed, 0);
    let used = snap::raw::Decoder::new().decompress(block, &mut unpacked[from..])?;
    unpacked.truncate(from + used);
    Ok(())
}
