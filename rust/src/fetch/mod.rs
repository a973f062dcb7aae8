//! Fetch responses: their structure, and the record batches in them.

mod cursor;
mod received;
mod response;
mod scan;
mod to_python;

use std::sync::Arc;

use crate::batches::Budget;
use crate::buffer::Buffer;
use crate::fetch::cursor::{Cursor, Read};
use crate::fetch::response::Source;
use crate::options::DecodeOptions;

pub use crate::fetch::received::{Block, Received};
pub use crate::fetch::response::{Partition, Response, Topic};
pub use crate::fetch::scan::{Found, Scan};
pub use crate::fetch::to_python::decode_fetch_response;

/// From this version on requests and responses have headers with tagged fields.
const FLEXIBLE_FROM: i16 = 12;

/// A decoded response, or the reason why it is malformed.
pub type Fetched = Result<Response, String>;

/// Limit for decoding a response on receipt. Invariant: the rest is decoded when its records are
/// taken. A response that decompresses to gigabytes is never decoded at once.
pub const AHEAD_BYTES: usize = 32 * 1024 * 1024;

fn is_flexible(version: i16) -> bool {
    version >= FLEXIBLE_FROM
}

fn skip_response_header(header: &mut Cursor<'_>) -> Read<()> {
    header.skip(4)?;
    header.skip_tags()
}

/// Decodes a frame with its response header, for a fetch of `version`, except the record batches.
pub fn decode_frame(frame: &Arc<Buffer>, blocks: &[Block<Arc<Buffer>>], version: i16) -> Fetched {
    let mut header = Cursor::new(frame, 0, is_flexible(version));
    skip_response_header(&mut header)
        .map_err(|problem| format!("malformed response header: {problem}"))?;
    decode_body(frame, blocks, header.position(), version)
}

impl Response {
    /// Decodes record batches ahead, within the budget.
    pub fn decode_ahead(&mut self, options: &DecodeOptions, budget: &Arc<Budget>) {
        let mut room = AHEAD_BYTES;
        for batches in self.partitions.iter_mut().filter_map(|each| each.batches.as_mut()) {
            batches.decode_ahead(options, &mut room, budget);
        }
    }
}

/// Decodes the body that begins at `body_at`, except the record batches.
pub fn decode_body(
    frame: &Arc<Buffer>,
    blocks: &[Block<Arc<Buffer>>],
    body_at: usize,
    version: i16,
) -> Fetched {
    let mut cursor = Cursor::new(frame, body_at, is_flexible(version));
    let mut source = Source { version, frame, blocks, blocks_used: 0 };
    let response = response::read(&mut cursor, &mut source).map_err(|problem| {
        let used = blocks.iter().take(source.blocks_used);
        let before: usize = used.map(|block| block.bytes.len()).sum();
        let at = cursor.position() - body_at + before;
        format!("malformed fetch response v{version} at byte {at}: {problem}")
    })?;
    let remaining = blocks.iter().skip(source.blocks_used).map(|block| block.bytes.len());
    match frame.len() - cursor.position() + remaining.sum::<usize>() {
        0 => Ok(response),
        remaining => {
            Err(format!("malformed fetch response v{version}: {remaining} bytes too many"))
        }
    }
}
