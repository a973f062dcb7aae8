//! Records as Python objects: `reader` takes them, `sequence` holds them, and `feed` serves loops.

mod accepting;
mod deserialized;
mod feed;
mod fields;
mod maker;
mod reader;
mod rows;
mod sequence;
mod under_gil;

pub use crate::records::accepting::Accepting;
pub use crate::records::deserialized::{Function, deserialize, deserialize_rows};
pub use crate::records::feed::{Feed, Loop};
pub use crate::records::maker::Replaced;
pub use crate::records::reader::RecordReader;
pub use crate::records::rows::{Piece, Rows};
pub use crate::records::sequence::{RecordIterator, Records};
pub use crate::records::under_gil::UnderGil;
