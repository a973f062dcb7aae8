//! Memory for frames: taken from a pool, given back when the last record lets go of it.
//!
//! A fetch response of megabytes would otherwise come from fresh pages of the system each time,
//! and touching a page for the first time costs about as much as receiving what is put into it.

use std::ops::Deref;
use std::sync::Arc;

use crate::pool::{self, POOLED_FROM};

/// Returns an empty vector with room for at least `size` bytes.
pub fn claim(size: usize) -> Vec<u8> {
    let pooled = if size >= POOLED_FROM { pool::take(size) } else { None };
    pooled.unwrap_or_else(|| Vec::with_capacity(rounded(size)))
}

/// Responses of a stream differ a little in size, and are to fit each other's buffers.
fn rounded(size: usize) -> usize {
    if size < POOLED_FROM {
        return size;
    }
    size.next_multiple_of(size.next_power_of_two() / 8)
}

/// Bytes that nobody changes any more.
pub struct Buffer(Vec<u8>);

impl Buffer {
    pub fn new(bytes: Vec<u8>) -> Self {
        Buffer(bytes)
    }

    /// Memory that it keeps.
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
        pool::give_back(std::mem::take(&mut self.0));
    }
}

/// A part of a buffer, which it keeps.
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

    /// The same bytes in a buffer that has nothing else.
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
