//! Records as Python objects: `reader` takes them, `sequence` holds them, `feed` serves loops, and
//! `collect` makes the usual batch of `poll()`.

mod collect;
mod deserialized;
mod feed;
mod fields;
mod maker;
mod reader;
mod rows;
mod sequence;
mod under_gil;

pub use crate::records::collect::UsualCase;
pub use crate::records::deserialized::deserialize;
pub use crate::records::feed::{Feed, Loop};
pub use crate::records::reader::RecordReader;
pub use crate::records::rows::{Piece, Rows};
pub use crate::records::sequence::{RecordIterator, Records};
