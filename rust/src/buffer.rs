//! Memory for frames: taken from a pool, and returned when the last record releases it.
//!
//! Without the pool, each large fetch response would use new pages of the system. The first access
//! to a page costs about as much as receiving its content.

use std::ops::Deref;
use std::sync::Arc;

use crate::pool::{self, POOLED_FROM};

/// Returns an empty vector with a capacity of at least `size` bytes.
pub fn claim(size: usize) -> Vec<u8> {
    let pooled = if size >= POOLED_FROM { pool::take(size) } else { None };
    pooled.unwrap_or_else(|| Vec::with_capacity(rounded(size)))
}

/// Rounds sizes, because consecutive responses differ slightly and must fit each other's buffers.
fn rounded(size: usize) -> usize {
    if size < POOLED_FROM {
        return size;
    }
    size.next_multiple_of(size.next_power_of_two() / 8)
}

/// Immutable bytes.
pub struct Buffer(Vec<u8>);

impl Buffer {
    pub fn new(bytes: Vec<u8>) -> Self {
        Buffer(bytes)
    }

    /// The memory that this buffer keeps alive.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        pool::put_back(std::mem::take(&mut self.0));
    }
}

/// A part of a buffer, which it keeps alive.
#[derive(Clone)]
pub struct Slice {
    pub buffer: Arc<Buffer>,
    pub from: usize,
    pub to: usize,
}

impl Slice {
    pub fn new(buffer: Arc<Buffer>, from: usize, to: usize) -> Self {
        Slice { buffer, from, to }
    }

    pub fn whole(buffer: Arc<Buffer>) -> Self {
        let to = buffer.len();
        Slice { buffer, from: 0, to }
    }

    /// A copy of the bytes in a buffer of their own.
    pub fn copied(&self) -> Self {
        Slice::whole(Arc::new(Buffer::new(self.to_vec())))
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }
}
