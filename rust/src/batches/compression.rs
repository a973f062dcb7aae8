//! Decompresses a batch, up to a maximum size; the counterpart of records/compression.py.

use std::cell::RefCell;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use zstd::zstd_safe::{self, DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::batches::problem::Problem;
use crate::buffer;

/// Initial estimate of the decompressed size, as a multiple of the compressed size.
const SIZE_ESTIMATE: usize = 4;
/// Batches that fit are first decompressed here and then copied. The reused memory stays in the
/// cache, and the copy has the exact size.
const SCRATCH_BYTES: usize = 256 * 1024;
const KEPT_CONTEXT_BYTES: usize = 16 * 1024 * 1024;

/// The magic of the Java client's snappy stream; version numbers without meaning follow.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const XERIAL_HEADER_SIZE: usize = 16;
/// Maximum expansion of a snappy element: a copy of 64 bytes takes 3.
const SNAPPY_RATIO: usize = 22;

thread_local! {
    /// Kept, because creating a context costs more than decompressing a small batch.
    static ZSTD: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A defect of compressed data.
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
    unpacked.map_err(|flaw| match flaw {
        Flaw::Broken(text) => Problem::Corrupt(format!("broken {name} data: {text}")),
        Flaw::TooLarge => Problem::TooLarge,
    })
}

/// The output of decompression, which grows up to a limit.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    is_scratch: bool,
}

impl Output {
    fn new(packed: usize, limit: usize) -> Self {
        let estimate = packed.saturating_mul(SIZE_ESTIMATE).min(limit);
        if estimate > SCRATCH_BYTES {
            return Output { bytes: buffer::claim(estimate), limit, is_scratch: false };
        }
        let mut bytes = SCRATCH.take();
        bytes.clear();
        bytes.reserve_exact(SCRATCH_BYTES.min(limit.saturating_add(1)));
        Output { bytes, limit, is_scratch: true }
    }

    /// Reserves at least one more byte. One byte beyond the limit reveals data that is too large.
    fn make_room(&mut self) {
        let length = self.bytes.len();
        if length == self.bytes.capacity() {
            let most = self.limit.saturating_add(1).saturating_sub(length);
            self.bytes.reserve_exact(length.max(SCRATCH_BYTES).min(most).max(1));
        }
    }

    fn check(&self) -> Result<(), Flaw> {
        if self.bytes.len() > self.limit { Err(Flaw::TooLarge) } else { Ok(()) }
    }

    /// Reads a stream to its end, or until it exceeds the limit.
    fn read(&mut self, mut stream: impl Read) -> Result<(), Flaw> {
        loop {
            self.make_room();
            let room = self.bytes.capacity() - self.bytes.len();
            let read = stream.by_ref().take(room as u64).read_to_end(&mut self.bytes)?;
            self.check()?;
            if read < room {
                return Ok(());
            }
        }
    }

    /// The bytes, in memory that is not much larger.
    fn finish(mut self) -> Vec<u8> {
        if self.is_scratch && self.bytes.len() <= SCRATCH_BYTES {
            let exact = self.bytes.as_slice().to_vec();
            SCRATCH.set(self.bytes);
            return exact;
        }
        if self.bytes.capacity() - self.bytes.len() > self.bytes.len() / 4 {
            self.bytes.shrink_to_fit();
        }
        self.bytes
    }
}

fn gzip(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    let mut output = Output::new(data.len(), max_bytes);
    output.read(MultiGzDecoder::new(data))?;
    Ok(output.finish())
}

fn lz4(mut data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    let mut output = Output::new(data.len(), max_bytes);
    // One frame per iteration.
    while !data.is_empty() {
        let before = data.len();
        output.read(FrameDecoder::new(&mut data))?;
        if data.len() == before {
            return Err("a frame header is missing".into());
        }
    }
    Ok(output.finish())
}

fn zstandard(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    ZSTD.with_borrow_mut(|kept| {
        let mut context = match kept.take() {
            Some(context) => context,
            None => DCtx::try_create().ok_or("no memory")?,
        };
        let mut output = Output::new(data.len(), max_bytes);
        let outcome = zstd_frames(&mut context, data, &mut output);
        // After an error, the context is in the middle of a frame; the next batch creates a new one.
        // A context that has allocated a large window would keep it.
        if outcome.is_ok()
            && context.sizeof() <= KEPT_CONTEXT_BYTES
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            *kept = Some(context);
        }
        outcome.map(|()| output.finish())
    })
}

fn zstd_frames(context: &mut DCtx<'_>, data: &[u8], output: &mut Output) -> Result<(), Flaw> {
    let mut input = InBuffer::around(data);
    loop {
        output.make_room();
        let (read, written) = (input.pos(), output.bytes.len());
        let needed = {
            let mut into = OutBuffer::around_pos(&mut output.bytes, written);
            context.decompress_stream(&mut into, &mut input).map_err(zstd_safe::get_error_name)?
        };
        output.check()?;
        let at_end = input.pos() == data.len();
        if at_end && needed == 0 {
            return Ok(());
        }
        let starved = at_end && output.bytes.len() < output.bytes.capacity();
        if starved || (input.pos() == read && output.bytes.len() == written) {
            return Err("a frame is truncated".into());
        }
    }
}

/// A single block, or the sequence of blocks that the Java client writes.
fn snappy(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, Flaw> {
    let blocks = if data.starts_with(XERIAL_MAGIC) { xerial_blocks(data)? } else { vec![data] };
    let mut claimed = 0;
    for block in &blocks {
        claimed += snappy_length(block, max_bytes - claimed)?;
    }
    let mut unpacked = buffer::claim(claimed);
    unpacked.resize(claimed, 0);
    let mut used = 0;
    for block in blocks {
        used += snap::raw::Decoder::new().decompress(block, &mut unpacked[used..])?;
    }
    unpacked.truncate(used);
    Ok(unpacked)
}

fn xerial_blocks(data: &[u8]) -> Result<Vec<&[u8]>, Flaw> {
    let mut blocks = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        if rest.starts_with(XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER_SIZE..).unwrap_or_default();
            continue;
        }
        let (length, following) = rest.split_first_chunk().ok_or("a block is truncated")?;
        let length = i32::from_be_bytes(*length);
        let block = usize::try_from(length).ok().and_then(|length| following.get(..length));
        let block = block.ok_or_else(|| format!("a block has the length {length}"))?;
        blocks.push(block);
        rest = &following[block.len()..];
    }
    Ok(blocks)
}

/// Returns the decompressed size that a block claims, if it is possible.
fn snappy_length(block: &[u8], max_bytes: usize) -> Result<usize, Flaw> {
    let claimed = snap::raw::decompress_len(block)?;
    if claimed > max_bytes {
        return Err(Flaw::TooLarge);
    }
    if claimed > SNAPPY_RATIO * block.len() {
        return Err(format!("{} bytes claim to decompress to {claimed}", block.len()).into());
    }
    Ok(claimed)
}
