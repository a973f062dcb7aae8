//! What standing fetches measure, until Python asks for it.

use std::collections::HashMap;

/// What has happened since Python last asked.
#[derive(Default)]
pub struct Counts {
    pub received: Sizes,
    pub sent: Sizes,
    pub latencies_ms: Sizes,
    /// Of responses with partitions: a session omits those without new data.
    pub records: Sizes,
    pub topics: HashMap<String, Sizes>,
}

impl Counts {
    pub fn add_topic(&mut self, topic: &str, size: usize) {
        match self.topics.get_mut(topic) {
            Some(sizes) => sizes.add(size as u64),
            None => self.topics.entry(topic.to_owned()).or_default().add(size as u64),
        }
    }
}

/// Number, sum and maximum.
#[derive(Default, Clone, Copy)]
pub struct Sizes(pub u64, pub u64, pub u64);

impl Sizes {
    pub fn add(&mut self, size: u64) {
        *self = Sizes(self.0 + 1, self.1 + size, self.2.max(size));
    }
}
