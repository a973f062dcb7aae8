//! The pool of buffers for reuse.
//!
//! Invariant: no operation takes a lock. One that another thread holds during `fork()` would stay
//! locked in the child forever. Without locks, the child only loses slots that were being changed.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Smaller buffers are cheap to allocate, and not pooled.
pub const POOLED_FROM: usize = 64 * 1024;
/// Limits of the pool in bytes and buffers: room for three large responses.
const POOL_BYTES: usize = 32 * 1024 * 1024;
const POOL_COUNT: usize = 32;
/// Idle time after which the pool returns its memory to the system.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// With a freed block of this size, glibc keeps twice as much freed memory at the end of the heap.
const KEPT_BY_HEAP: usize = 4 * 1024 * 1024;

/// `capacity` of an empty slot, and of one that a thread is changing.
const EMPTY: usize = 0;
const BUSY: usize = usize::MAX;

/// A slot for one buffer. The thread that changes `capacity` to `BUSY` owns the other fields until
/// it sets another value.
struct Slot {
    capacity: AtomicUsize,
    start: AtomicPtr<u8>,
    /// A sequence number: the oldest buffer has the lowest.
    stamp: AtomicU64,
}

impl Slot {
    const fn new() -> Self {
        Slot {
            capacity: AtomicUsize::new(EMPTY),
            start: AtomicPtr::new(null_mut()),
            stamp: AtomicU64::new(0),
        }
    }

    /// The capacity of the buffer, if one is available.
    fn holds(&self) -> Option<usize> {
        Some(self.capacity.load(Relaxed)).filter(|capacity| !matches!(*capacity, EMPTY | BUSY))
    }

    fn take(&self, capacity: usize) -> Option<Vec<u8>> {
        self.capacity.compare_exchange(capacity, BUSY, Acquire, Relaxed).ok()?;
        let start = self.start.load(Relaxed);
        self.capacity.store(EMPTY, Release);
        // SAFETY: `put` took pointer and capacity from a vector that it forgot. This thread owned
        // the slot between the exchange and the store, so no other thread has this pointer.
        Some(unsafe { Vec::from_raw_parts(start, 0, capacity) })
    }

    /// Puts a buffer into an empty slot, or returns it.
    fn put(&self, bytes: Vec<u8>, stamp: u64) -> Result<(), Vec<u8>> {
        if self.capacity.compare_exchange(EMPTY, BUSY, AcqRel, Relaxed).is_err() {
            return Err(bytes);
        }
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        self.start.store(bytes.as_mut_ptr(), Relaxed);
        self.stamp.store(stamp, Relaxed);
        self.capacity.store(bytes.capacity(), Release);
        Ok(())
    }
}

static SLOTS: [Slot; POOL_COUNT] = [const { Slot::new() }; POOL_COUNT];
/// The number of buffers returned so far.
static RETURNED: AtomicU64 = AtomicU64::new(0);

/// Takes the buffer that fits best: a small frame must not hold the memory of a large one.
pub fn take(size: usize) -> Option<Vec<u8>> {
    let fits = |capacity: &usize| *capacity >= size && *capacity / 2 <= size;
    let best = SLOTS.iter().filter_map(|slot| Some((slot.holds().filter(fits)?, slot)));
    let (capacity, slot) = best.min_by_key(|(capacity, _)| *capacity)?;
    slot.take(capacity) // None if another thread has taken it
}

/// Keeps a buffer for reuse, replacing older ones if necessary.
pub fn put_back(mut bytes: Vec<u8>) {
    let capacity = bytes.capacity();
    if !(POOLED_FROM..=POOL_BYTES).contains(&capacity) {
        return;
    }
    bytes.clear();
    let stamp = RETURNED.fetch_add(1, Relaxed) + 1;
    for _ in 0..POOL_COUNT {
        let held: usize = SLOTS.iter().filter_map(Slot::holds).sum();
        if held + capacity <= POOL_BYTES {
            for slot in &SLOTS {
                match slot.put(bytes, stamp) {
                    Ok(()) => return,
                    Err(rejected) => bytes = rejected,
                }
            }
        }
        drop_oldest();
    }
}

fn drop_oldest() {
    let held = SLOTS.iter().filter_map(|slot| Some((slot.holds()?, slot)));
    if let Some((capacity, slot)) = held.min_by_key(|(_, slot)| slot.stamp.load(Relaxed)) {
        drop(slot.take(capacity));
    }
}

fn drop_all() {
    for slot in &SLOTS {
        drop(slot.holds().and_then(|capacity| slot.take(capacity)));
    }
}

/// Has the heap keep the memory of a batch for the next one.
///
/// glibc adapts to the largest block that was freed. Without one, it gives the memory of each batch
/// back to the system, and each value of the next batch causes a page fault. That took a fifth of
/// the time with values of 1 KB; a pool frees large blocks too rarely.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BY_HEAP)));
}

/// Detects whether the pool is in use.
pub struct PoolWatch {
    given: u64,
    since: Instant,
}

impl PoolWatch {
    pub fn new() -> Self {
        keep_freed_memory();
        PoolWatch { given: RETURNED.load(Relaxed), since: Instant::now() }
    }

    /// Empties a pool that has been idle for long. Cheap enough to be called often.
    pub fn drop_if_unused(&mut self) {
        self.drop_unused_for(KEPT_FOR);
    }

    fn drop_unused_for(&mut self, time: Duration) {
        let given = RETURNED.load(Relaxed);
        if given != self.given {
            *self = PoolWatch { given, since: Instant::now() };
        } else if self.since.elapsed() >= time {
            drop_all();
            self.since = Instant::now();
        }
    }
}

impl Default for PoolWatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_held() -> usize {
        SLOTS.iter().filter_map(Slot::holds).sum()
    }

    /// A single test, because the process has a single pool.
    #[test]
    fn a_pool_is_bounded_drops_the_oldest_and_is_emptied_when_unused() {
        let size = 3 * 1024 * 1024;
        let buffer: Vec<u8> = Vec::with_capacity(size);
        let address = buffer.as_ptr();
        put_back(buffer);
        assert!(take(2 * size).is_none(), "it is too small");
        assert!(take(size / 3).is_none(), "it is too large");
        let again = take(size - 1000).unwrap();
        assert_eq!(again.as_ptr(), address);
        put_back(again);

        let mut watch = PoolWatch::new();
        watch.drop_unused_for(Duration::from_secs(3600));
        assert!(bytes_held() >= size);

        for extra in 0..2 * POOL_COUNT {
            put_back(Vec::with_capacity(size + extra));
            assert!(bytes_held() <= POOL_BYTES);
        }
        let newest = size + 2 * POOL_COUNT - 1;
        assert!(SLOTS.iter().any(|slot| slot.holds() == Some(newest)));
        assert!(SLOTS.iter().all(|slot| slot.holds() != Some(size)), "the oldest one is dropped");

        put_back(Vec::with_capacity(POOL_BYTES + 1));
        assert!(bytes_held() <= POOL_BYTES);
        watch.drop_unused_for(Duration::ZERO); // the pool was used since the last call
        assert!(bytes_held() > 0);
        watch.drop_unused_for(Duration::ZERO);
        assert_eq!(bytes_held(), 0);
    }
}
