//! Records on their way to the user: a reader takes them, a sequence holds them, one stands alone.

mod reader;
mod record;
mod sequence;

pub use crate::records::reader::RecordReader;
pub use crate::records::record::{Record, Slice};
pub use crate::records::sequence::{Piece, RecordIterator, Records};
