//! Records on their way to the user: a reader takes them, a sequence holds them, one stands alone.

mod body;
mod handed;
mod reader;
mod record;
mod sequence;

pub use crate::records::body::Slice;
pub use crate::records::reader::RecordReader;
pub use crate::records::record::Record;
pub use crate::records::sequence::{Piece, RecordIterator, Records};
