//! The budget for decoding ahead: at most `fetch_buffer_max_bytes` of a consumer.
//! `RecordReader::take` decodes the rest when it reaches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that may be decoded ahead; all connections of a consumer share it.
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

/// A part of a budget, returned on drop.
pub struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Budget { limit, used: AtomicUsize::new(0) })
    }

    /// The remaining bytes; other threads may spend them concurrently.
    pub fn remaining(&self) -> usize {
        self.limit.saturating_sub(self.used.load(Relaxed))
    }

    /// Spends `bytes`, even beyond the limit.
    pub fn spend(self: &Arc<Self>, bytes: usize) -> Charge {
        self.used.fetch_add(bytes, Relaxed);
        Charge { budget: Arc::clone(self), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_charge_returns_its_bytes() {
        let budget = Budget::new(10);
        let (first, second) = (budget.spend(4), budget.spend(9));
        assert_eq!(budget.remaining(), 0);
        drop(second);
        assert_eq!(budget.remaining(), 6);
        drop(first);
        assert_eq!(budget.remaining(), 10);
    }
}
