//! Fetch responses: their structure, and the record batches in them.

mod cursor;
mod frame;
mod received;
mod response;
mod scan;
mod to_python;

pub use crate::fetch::frame::FetchFrame;
pub use crate::fetch::received::{Block, Received};
pub use crate::fetch::response::{AHEAD_BYTES, Fetched, Partition, Response, Topic, decode_frame};
pub use crate::fetch::scan::{Found, Scan};
pub use crate::fetch::to_python::decode_fetch_response;
