//! A received frame: its bytes, and blocks of records in separate buffers.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::frame::Frame;

/// The record batches of one partition, received separately from the rest of their frame, so that
/// neither keeps the memory of the other alive.
pub struct Block<B> {
    /// Their position in the rest of the frame.
    pub at: usize,
    pub bytes: B,
}

/// A frame without its length prefix.
#[derive(Default)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub blocks: Vec<Block<Vec<u8>>>,
}

impl Received {
    /// The number of bytes in blocks.
    pub fn block_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.len()).sum()
    }

    /// Makes the frame immutable.
    pub fn freeze(self) -> (Arc<Buffer>, Vec<Block<Arc<Buffer>>>) {
        let freeze = |bytes| Arc::new(Buffer::new(bytes));
        let blocks = self.blocks.into_iter();
        let blocks = blocks.map(|Block { at, bytes }| Block { at, bytes: freeze(bytes) });
        (freeze(self.bytes), blocks.collect())
    }
}

/// A frame that is not decoded.
impl From<Received> for Frame {
    fn from(received: Received) -> Self {
        let elsewhere = received.block_bytes();
        Frame::new(Arc::new(Buffer::new(received.bytes)), elsewhere)
    }
}
