//! The standing fetch: which responses it takes, and what it fetches next.
//!
//! It belongs to one connection and one fetch session, with one request in flight. The table of its
//! states is in request_managers/fetching/standing.py.
//!
//! The next fetch is the one that Python would send: `session.py`, `sizing.py` and
//! `response_handler.py` are the counterparts.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::batches::Budget;
use crate::fetch::{AHEAD_BYTES, Partition, Response, Topic};
use crate::options::DecodeOptions;
use crate::standing::bell::Count;
use crate::standing::counts::Counts;
use crate::standing::progress::Progress;
use crate::standing::queue::{CHUNK_BYTES, Fetched, Origin, Shared};
use crate::standing::request::{self, Template, Wanted};

/// An empty response that arrives sooner makes Python pause.
const EMPTY_PAUSE: Duration = Duration::from_millis(10);
/// See sizing.py.
const QUICK_MS: u128 = 250;
const SLOW_MS: u128 = 2_000;
/// Up to this size, the application is woken before the next fetch is sent.
const FEW_BYTES: usize = 65_536;
/// LATE_MS in network/node_state.py: Python reports a broker that is slow.
pub const LATE: Duration = Duration::from_millis(1_000);
const MAX_EPOCH: i32 = i32::MAX;

/// One partition, as the session knows it.
pub struct Target {
    pub progress: Arc<Progress>,
    pub origin: Arc<Origin>,
    pub topic: String,
    pub topic_id: [u8; 16],
    pub partition: i32,
    pub leader_epoch: i32,
    /// Of the request in flight.
    pub offset: i64,
    pub max_bytes: i32,
    pub stop_at: i64,
    /// How many more bytes may be buffered.
    pub credit: i64,
    /// Whether `max_bytes` was adjusted.
    pub resized: bool,
}

pub struct Order {
    pub template: Template,
    pub session_epoch: i32,
    pub targets: Vec<Target>,
    /// The partitions that were moved, by their last requests.
    pub order_of_moves: Vec<usize>,
    pub largest_bytes: i32,
    pub smallest_bytes: i32,
    /// Limit of a whole response.
    pub response_bytes: i64,
    /// Limit of the buffer.
    pub room: i64,
    /// The expected size of the response in flight, which the queue counts as reserved.
    pub expected: i64,
    pub until: Instant,
    /// A response that takes longer is late.
    pub late: Duration,
    pub sent: Instant,
    pub repeats: u64,
    pub ended: bool,
    pub counts: Counts,
}

/// What follows from a response that was accepted.
pub struct Absorbed {
    /// The next request.
    pub frame: Vec<u8>,
    /// Data for `deliver`.
    pub fetched: Vec<Fetched>,
    /// Much data: it is decoded after the next request is sent. A few records are not delayed.
    pub send_first: bool,
}

/// A partition of a response that is accepted.
struct Step {
    index: usize,
    /// The offset after its last record; None without records.
    end_offset: Option<i64>,
    bytes: usize,
}

/// The order for one connection. Only the network thread uses it, except for `counts`.
pub struct Standing {
    pub order: Mutex<Order>,
    pub queue: Arc<Shared>,
    pub bell: Arc<Count>,
}

impl Standing {
    pub fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a response of `bytes` with its length prefix, or returns it for Python and ends.
    #[allow(clippy::result_large_err)] // a response is moved once
    pub fn absorb(
        &self,
        response: Response,
        bytes: usize,
        options: &DecodeOptions,
        now: Instant,
    ) -> Result<Absorbed, Response> {
        let mut order = self.order();
        match order.check(&response, now) {
            Some(steps) if order.has_room(&steps, &response, &self.queue) => {
                let absorbed = order.apply(response, &steps, bytes, options, now);
                self.queue.count(bytes, absorbed.frame.len());
                let expected = order.expected_bytes();
                self.queue.reserve(expected - order.expected);
                order.expected = expected;
                Ok(absorbed)
            }
            _ => {
                self.end(&mut order);
                Err(response)
            }
        }
    }

    pub fn end(&self, order: &mut Order) {
        order.ended = true;
        self.queue.reserve(-order.expected);
        order.expected = 0;
    }

    /// Decodes and queues data, and wakes the application.
    pub fn deliver(&self, fetched: Vec<Fetched>, options: &DecodeOptions, budget: &Arc<Budget>) {
        if fetched.is_empty() {
            return;
        }
        // Invariant: what is decoded ahead fits into the buffer, too; the reader decodes the rest.
        let size: usize = fetched.iter().map(|each| each.size).sum();
        let left = self.order().room - self.queue.held() - size as i64;
        let mut ahead = AHEAD_BYTES.min(usize::try_from(left).unwrap_or(0));
        for mut each in fetched {
            each.size += each.batches.decode_ahead(options, &mut ahead, budget);
            {
                let mut order = self.order();
                let size = each.size as i64;
                let target = &mut order.targets[each.index];
                target.credit -= size;
                target.progress.buffered_bytes.fetch_add(size, SeqCst);
            }
            self.queue.push(each);
        }
        self.bell.ring();
    }
}

impl Order {
    /// Returns the steps of a response without anything unusual; None if Python must decide.
    ///
    /// Invariant: usual is what Python would only queue. The session is the same, nothing is late,
    /// throttled, unknown or named twice, and nothing hints at a leader, replica or truncation.
    /// Each partition begins with the batch of its offset, in format v2, and has room.
    fn check(&self, response: &Response, now: Instant) -> Option<Vec<Step>> {
        let usual = !self.ended
            && now < self.until
            && now - self.sent < self.late
            && response.error_code == 0
            && response.session_id == self.template.session_id
            && response.throttle_time_ms == 0
            && response.nodes.is_empty();
        if !usual {
            return None;
        }
        let mut steps: Vec<Step> = Vec::with_capacity(response.partitions.len());
        for partition in &response.partitions {
            let step = self.check_partition(partition)?;
            if steps.iter().any(|known| known.index == step.index) {
                return None;
            }
            steps.push(step);
        }
        let empty = steps.iter().all(|step| step.end_offset.is_none());
        if empty && now - self.sent < EMPTY_PAUSE { None } else { Some(steps) }
    }

    /// Tells whether the buffer has room for this response and the next one.
    ///
    /// Invariant: one counter holds what all fetches in flight may bring, of orders and of Python,
    /// and is read before the next one is sent. A response in flight arrives in any case, so the
    /// buffer may exceed its limit by one response per slot.
    fn has_room(&self, steps: &[Step], response: &Response, queue: &Shared) -> bool {
        let received: usize = steps.iter().map(|step| step.bytes).sum();
        if received == 0 {
            return true;
        }
        let next = steps.iter().zip(&response.partitions).map(|(step, partition)| {
            let behind = step.end_offset.is_some_and(|end| end != partition.high_watermark);
            if behind { i64::from(self.targets[step.index].max_bytes) } else { 0 }
        });
        let next = next.sum::<i64>().min(self.response_bytes);
        queue.held() + received as i64 + next + queue.reserved() - self.expected < self.room
    }

    /// The most that the next response may bring for partitions that are behind.
    pub fn expected_bytes(&self) -> i64 {
        let behind = self.targets.iter().filter(|target| target.is_behind());
        behind.map(|target| i64::from(target.max_bytes)).sum::<i64>().min(self.response_bytes)
    }

    fn check_partition(&self, partition: &Partition) -> Option<Step> {
        let index = self.index_of(partition)?;
        let target = &self.targets[index];
        let usual = partition.error_code == 0
            && partition.preferred_read_replica < 0
            && partition.current_leader.is_none()
            && partition.diverging_epoch.is_none();
        if !usual {
            return None;
        }
        let Some(batches) = &partition.batches else {
            return Some(Step { index, end_offset: None, bytes: 0 });
        };
        let end_offset = batches.last_offset()? + 1;
        let bytes = batches.held_bytes();
        let usual = target.is_current()
            && batches.is_plain()
            && batches.check_beginning(target.offset).is_none()
            && end_offset > target.offset
            && end_offset < target.stop_at
            && (bytes as i64) < target.credit;
        usual.then_some(Step { index, end_offset: Some(end_offset), bytes })
    }

    /// Few partitions have a standing fetch, so a search is fast.
    fn index_of(&self, partition: &Partition) -> Option<usize> {
        self.targets.iter().position(|target| {
            target.partition == partition.partition
                && match &partition.topic {
                    Topic::Name(name) => **name == target.topic,
                    Topic::Id(id) => *id == target.topic_id,
                }
        })
    }

    fn apply(
        &mut self,
        response: Response,
        steps: &[Step],
        bytes: usize,
        options: &DecodeOptions,
        now: Instant,
    ) -> Absorbed {
        let took = now - self.sent;
        self.counts.received.add(bytes as u64);
        self.counts.latencies_ms.add(took.as_millis() as u64);
        self.repeats += 1;
        let mut fetched = Vec::new();
        let mut total = 0;
        let mut moved = Vec::new();
        for (partition, step) in response.partitions.into_iter().zip(steps) {
            let target = &mut self.targets[step.index];
            target.observe(&partition);
            let (Some(batches), Some(end_offset)) = (partition.batches, step.end_offset) else {
                continue;
            };
            let got = batches.len();
            total += got;
            self.counts.add_topic(&target.topic, got);
            fetched.push(Fetched {
                index: step.index,
                origin: Arc::clone(&target.origin),
                partition: target.partition,
                fetch_offset: target.offset,
                leader_epoch: target.leader_epoch,
                size: CHUNK_BYTES + step.bytes,
                batches: *batches,
                options: *options,
            });
            target.learn(got, took, self.smallest_bytes, self.largest_bytes);
            target.offset = end_offset;
            target.progress.read_ahead.store(end_offset, SeqCst);
            moved.push(step.index);
        }
        if !steps.is_empty() {
            self.counts.records.add(total as u64);
        }
        let frame = self.next_request(&moved);
        self.counts.sent.add(frame.len() as u64);
        self.sent = now;
        self.order_of_moves.retain(|index| !moved.contains(index));
        self.order_of_moves.extend(moved);
        Absorbed { frame, fetched, send_first: total >= FEW_BYTES }
    }

    fn next_request(&mut self, moved: &[usize]) -> Vec<u8> {
        self.session_epoch =
            if self.session_epoch == MAX_EPOCH { 1 } else { self.session_epoch + 1 };
        let wanted: Vec<Wanted<'_>> = moved
            .iter()
            .map(|&index| {
                let target = &self.targets[index];
                Wanted {
                    topic: &target.topic,
                    topic_id: &target.topic_id,
                    partition: target.partition,
                    leader_epoch: target.leader_epoch,
                    offset: target.offset,
                    max_bytes: target.max_bytes,
                }
            })
            .collect();
        request::frame(&self.template, self.session_epoch, &wanted)
    }
}

impl Target {
    /// True unless Python has moved the partition since, by a seek for example. Invariant: an order
    /// moves `read_ahead` only from its own offset.
    fn is_current(&self) -> bool {
        self.progress.read_ahead.load(SeqCst) == self.offset
    }

    /// True unless the end of the log was reached.
    fn is_behind(&self) -> bool {
        self.progress.high_watermark.load(SeqCst) != self.offset
    }

    fn observe(&self, partition: &Partition) {
        self.progress.high_watermark.store(partition.high_watermark, SeqCst);
        self.progress.last_stable_offset.store(partition.last_stable_offset, SeqCst);
        self.progress.log_start_offset.store(partition.log_start_offset, SeqCst);
    }

    /// Adjusts the fetch size; see `FetchSizing.learn`.
    fn learn(&mut self, got: usize, took: Duration, smallest: i32, largest: i32) {
        let asked = i64::from(self.max_bytes);
        if 2 * (got as i64) < asked {
            return;
        }
        let took_ms = took.as_millis();
        let next = if took_ms < QUICK_MS {
            (2 * asked).min(i64::from(largest))
        } else if took_ms > SLOW_MS {
            (asked / 2).max(i64::from(smallest))
        } else {
            return;
        };
        self.max_bytes = next as i32;
        self.resized = true;
    }
}
