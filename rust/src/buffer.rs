//! Memory for frames: taken from a small pool, given back when the last record lets go of it.
//!
//! A fetch response of megabytes would otherwise come from fresh pages of the system each time,
//! and touching a page for the first time costs about as much as receiving what is put into it.

use std::ops::Deref;
use std::sync::Mutex;

/// Smaller buffers are cheap to allocate.
const POOLED_FROM: usize = 64 * 1024;
/// What the pool may keep for later, in bytes and in buffers.
const POOL_BYTES: usize = 16 * 1024 * 1024;
const POOL_COUNT: usize = 32;

static POOL: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Returns an empty vector with room for at least `size` bytes.
pub fn claim(size: usize) -> Vec<u8> {
    if size >= POOLED_FROM {
        let mut pool = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The tightest fit, so that a small frame does not hold the memory of a large one.
        let best = (0..pool.len())
            .filter(|&i| pool[i].capacity() >= size && pool[i].capacity() / 2 <= size)
            .min_by_key(|&i| pool[i].capacity());
        if let Some(index) = best {
            return pool.swap_remove(index);
        }
    }
    Vec::with_capacity(rounded(size))
}

/// Responses of a stream differ a little in size, and are to fit each other's buffers.
fn rounded(size: usize) -> usize {
    if size < POOLED_FROM {
        return size;
    }
    size.next_multiple_of((size.next_power_of_two() / 8).max(POOLED_FROM))
}

fn give_back(mut bytes: Vec<u8>) {
    let capacity = bytes.capacity();
    if !(POOLED_FROM..=POOL_BYTES).contains(&capacity) {
        return;
    }
    bytes.clear();
    let mut pool = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    pool.push(bytes);
    let mut held: usize = pool.iter().map(Vec::capacity).sum();
    while held > POOL_BYTES || pool.len() > POOL_COUNT {
        held -= pool.remove(0).capacity();
    }
}

/// Bytes that nobody changes any more.
pub struct Buffer(Vec<u8>);

impl Buffer {
    pub fn new(bytes: Vec<u8>) -> Self {
        Buffer(bytes)
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
        give_back(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_claimed_again_by_a_frame_of_about_its_size() {
        let size = 3 * 1024 * 1024;
        let address = {
            let buffer = Buffer::new(claim(size));
            buffer.0.as_ptr()
        };
        let again = claim(size - 1000);
        assert_eq!(again.as_ptr(), address);
    }
}
