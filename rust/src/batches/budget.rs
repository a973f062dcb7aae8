//! How much may be decoded before anyone asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that may be decoded ahead, shared by all connections of a consumer.
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

/// A part of a budget, given back when it is dropped.
pub struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Budget { limit, used: AtomicUsize::new(0) })
    }

    /// What is left; others may spend it meanwhile.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used.load(Relaxed))
    }

    /// Spends `bytes`, if need be beyond the limit.
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
    fn what_is_spent_comes_back_with_its_charge() {
        let budget = Budget::new(10);
        let (first, second) = (budget.spend(4), budget.spend(9));
        assert_eq!(budget.left(), 0);
        drop(second);
        assert_eq!(budget.left(), 6);
        drop(first);
        assert_eq!(budget.left(), 10);
    }
}
