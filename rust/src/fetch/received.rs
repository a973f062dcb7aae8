//! A frame as it is received: its bytes, and blocks of records in buffers of their own.

use std::sync::Arc;

use crate::buffer::Buffer;

/// The record batches of one partition, received apart from the rest of their frame so that
/// neither keeps the other's memory.
pub struct Block<B> {
    /// Where in the rest they belong.
    pub at: usize,
    pub bytes: B,
}

/// A frame without its length.
#[derive(Default)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub blocks: Vec<Block<Vec<u8>>>,
}

impl Received {
    /// Bytes that are in blocks.
    pub fn block_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.len()).sum()
    }

    /// The same, no longer to be changed.
    pub fn freeze(self) -> (Arc<Buffer>, Vec<Block<Arc<Buffer>>>) {
        let freeze = |bytes| Arc::new(Buffer::new(bytes));
        let blocks = self.blocks.into_iter();
        let blocks = blocks.map(|Block { at, bytes }| Block { at, bytes: freeze(bytes) });
        (freeze(self.bytes), blocks.collect())
    }
}
