//! Decompresses a batch, never to more bytes than allowed; counterpart of records/compression.py.

use std::cell::RefCell;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use zstd::zstd_safe::{self, DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::batches::problem::Problem;
use crate::buffer;

/// First guess at the decompressed size, as a multiple of the compressed one.
const GUESS: usize = 4;
/// Batches for which this is enough are decompressed here first and then copied: the same memory
/// again and again stays in the cache, and the copy has the size that it needs.
const SCRATCH_BYTES: usize = 256 * 1024;
const KEPT_CONTEXT_BYTES: usize = 16 * 1024 * 1024;

/// What the Java client's snappy stream begins with; versions follow that say nothing.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const XERIAL_HEADER_SIZE: usize = 16;
/// No snappy element makes more of its bytes than this: a copy of 64 bytes takes 3.
const SNAPPY_RATIO: usize = 22;

thread_local! {
    /// Making a context costs more than decompressing a small batch.
    static ZSTD: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
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
    unpacked.map_err(|flaw| match flaw {
        Flaw::Broken(text) => Problem::Corrupt(format!("broken {name} data: {text}")),
        Flaw::TooLarge => Problem::TooLarge,
    })
}

/// Where decompressed bytes go: it grows as they come, and no further than the bound.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    is_scratch: bool,
}

impl Output {
    fn new(packed: usize, limit: usize) -> Self {
        let guess = packed.saturating_mul(GUESS).min(limit);
        if guess > SCRATCH_BYTES {
            return Output { bytes: buffer::claim(guess), limit, is_scratch: false };
        }
        let mut bytes = SCRATCH.take();
        bytes.clear();
        bytes.reserve_exact(SCRATCH_BYTES.min(limit.saturating_add(1)));
        Output { bytes, limit, is_scratch: true }
    }

    /// Makes room for at least one byte more; one beyond the bound shows that there is more.
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

    /// Reads a stream to its end, and stops when there is more than allowed.
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

    /// The bytes, in memory that is not much larger than they are.
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
    // One frame in each turn.
    while !data.is_empty() {
        let before = data.len();
        output.read(FrameDecoder::new(&mut data))?;
        if data.len() == before {
            return Err("a frame does not begin".into());
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
        // After an error the context is in mid-frame; the next batch makes a new one.
        // One that has made a large window for itself would keep it.
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
        let wanted = {
            let mut into = OutBuffer::around_pos(&mut output.bytes, written);
            context.decompress_stream(&mut into, &mut input).map_err(zstd_safe::get_error_name)?
        };
        output.check()?;
        let at_end = input.pos() == data.len();
        if at_end && wanted == 0 {
            return Ok(());
        }
        let starved = at_end && output.bytes.len() < output.bytes.capacity();
        if starved || (input.pos() == read && output.bytes.len() == written) {
            return Err("a frame is cut short".into());
        }
    }
}

/// A bare block, or the row of blocks that the Java client writes.
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
        let (length, behind) = rest.split_first_chunk().ok_or("a block is cut short")?;
        let length = i32::from_be_bytes(*length);
        let block = usize::try_from(length).ok().and_then(|length| behind.get(..length));
        let block = block.ok_or_else(|| format!("a block length is {length}"))?;
        blocks.push(block);
        rest = &behind[block.len()..];
    }
    Ok(blocks)
}

/// Returns what a block claims to come to, if that can be.
fn snappy_length(block: &[u8], max_bytes: usize) -> Result<usize, Flaw> {
    let claimed = snap::raw::decompress_len(block)?;
    if claimed > max_bytes {
        return Err(Flaw::TooLarge);
    }
    if claimed > SNAPPY_RATIO * block.len() {
        return Err(format!("{} bytes claim {claimed}", block.len()).into());
    }
    Ok(claimed)
}
