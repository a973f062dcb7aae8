//! Memory for frames: taken from a small pool, given back when the last record lets go of it.
//!
//! A fetch response of megabytes would otherwise come from fresh pages of the system each time,
//! and touching a page for the first time costs about as much as receiving what is put into it.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Smaller buffers are cheap to allocate.
const POOLED_FROM: usize = 64 * 1024;
/// What the pool may keep for later, in bytes and in buffers: three large responses.
const POOL_BYTES: usize = 32 * 1024 * 1024;
const POOL_COUNT: usize = 32;
/// A pool that was not used for so long gives its memory back to the system.
const KEPT_FOR: Duration = Duration::from_secs(10);

struct Pool {
    buffers: Vec<Vec<u8>>,
    used: Option<Instant>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { buffers: Vec::new(), used: None });

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns an empty vector with room for at least `size` bytes.
pub fn claim(size: usize) -> Vec<u8> {
    if size >= POOLED_FROM {
        let buffers = &mut pool().buffers;
        // The tightest fit, so that a small frame does not hold the memory of a large one.
        let best = (0..buffers.len())
            .filter(|&i| buffers[i].capacity() >= size && buffers[i].capacity() / 2 <= size)
            .min_by_key(|&i| buffers[i].capacity());
        if let Some(index) = best {
            return buffers.swap_remove(index);
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
    let mut pool = pool();
    pool.used = Some(Instant::now());
    pool.buffers.push(bytes);
    let mut held: usize = pool.buffers.iter().map(Vec::capacity).sum();
    while held > POOL_BYTES || pool.buffers.len() > POOL_COUNT {
        held -= pool.buffers.remove(0).capacity();
    }
}

/// Empties a pool that has long been out of use; cheap, and called often.
pub fn tidy_up() {
    give_back_unused_for(KEPT_FOR);
}

fn give_back_unused_for(time: Duration) {
    let unused = {
        let mut pool = pool();
        match pool.used {
            Some(used) if used.elapsed() >= time => {
                pool.used = None;
                std::mem::take(&mut pool.buffers)
            }
            _ => return,
        }
    };
    drop(unused); // without the lock: it may take a while
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
    fn a_dropped_buffer_is_claimed_again_by_a_frame_of_about_its_size_unless_long_unused() {
        let size = 3 * 1024 * 1024;
        let address = {
            let buffer = Buffer::new(claim(size));
            buffer.0.as_ptr()
        };
        let again = claim(size - 1000);
        assert_eq!(again.as_ptr(), address);
        drop(Buffer::new(again));
        let held = || pool().buffers.iter().any(|each| each.capacity() == rounded(size));
        give_back_unused_for(Duration::from_secs(3600));
        assert!(held());
        give_back_unused_for(Duration::ZERO);
        assert!(!held());
    }
}
