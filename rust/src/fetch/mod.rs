//! Fetch responses: their structure, and from there on the record batches in them.

mod cursor;
mod response;
mod to_python;

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::fetch::cursor::Cursor;
use crate::options::DecodeOptions;

pub use crate::fetch::response::{Partition, Response};
pub use crate::fetch::to_python::decode_fetch_response;

/// From this version on requests and responses have headers with tagged fields.
const FLEXIBLE_FROM: i16 = 12;

/// A decoded response, or why the bytes are none.
pub type Fetched = Result<Response, String>;

/// How much may be decompressed at receipt; batches beyond are when their records are taken, so
/// that a response which unpacks to gigabytes never does so all at once.
const AHEAD_BYTES: usize = 32 * 1024 * 1024;

/// Decodes a frame, response header included, that answers a fetch of `version`.
pub fn decode_frame(frame: &Arc<Buffer>, version: i16, options: &DecodeOptions) -> Fetched {
    let mut header = Cursor::new(frame, 0, version >= FLEXIBLE_FROM);
    let body_at = header
        .skip(4)
        .and_then(|()| header.skip_tags())
        .map(|()| header.position())
        .map_err(|problem| format!("malformed response header: {problem}"))?;
    let mut response = decode_body(frame, body_at, version)?;
    let mut budget = AHEAD_BYTES;
    for partition in &mut response.partitions {
        if let Some(batches) = &mut partition.batches {
            batches.decode_ahead(options, &mut budget);
        }
    }
    Ok(response)
}

/// Decodes the body that begins at `body_at`; the record batches stay as they are.
pub fn decode_body(frame: &Arc<Buffer>, body_at: usize, version: i16) -> Fetched {
    let mut cursor = Cursor::new(frame, body_at, version >= FLEXIBLE_FROM);
    let response = response::read(&mut cursor, version).map_err(|problem| {
        let at = cursor.position() - body_at;
        format!("malformed fetch response v{version} at byte {at}: {problem}")
    })?;
    match frame.len() - cursor.position() {
        0 => Ok(response),
        left => Err(format!("malformed fetch response v{version}: {left} bytes too many")),
    }
}
