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
use crate::standing::counts::Counts;
use crate::standing::notifier::Count;
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
    /// Of the request in flight, or of the next one if that is held.
    pub offset: i64,
    pub max_bytes: i32,
    /// Both as the broker knows them, from the last request.
    pub requested: (i64, i32),
    pub stop_at: i64,
    /// How many bytes may be buffered.
    pub limit: i64,
    /// Whether `max_bytes` was adjusted.
    pub resized: bool,
}

pub struct Standing {
    pub template: Template,
    pub session_epoch: i32,
    pub targets: Vec<Target>,
    /// The numbers of the partitions, sorted, with the indices of their targets.
    pub numbers: Vec<(i32, usize)>,
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
    pub held: Option<Held>,
    /// Whether Python logs each repetition.
    pub reports: bool,
    pub until: Instant,
    /// A response that takes longer is late.
    pub late: Duration,
    /// When the last request was sent; if the next one is held, when the last response arrived.
    pub sent: Instant,
    pub repeats: u64,
    /// How long the response before the last repetition took.
    pub took: Duration,
    pub ended: bool,
    pub counts: Counts,
}

/// A response that was taken while the buffer was full, so that the next request is held.
pub struct Held {
    /// The partitions that the response has moved.
    moved: Vec<usize>,
    /// Its size.
    received: usize,
    pub took: Duration,
    handed_over: bool,
}

/// What follows from a response that was accepted.
pub struct Absorbed {
    /// The next request; None if it is held.
    pub frame: Option<Vec<u8>>,
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

/// The standing fetch for one connection. Only the network thread uses it, except for `counts`.
pub struct SharedStanding {
    pub standing: Mutex<Standing>,
    pub queue: Arc<Shared>,
    pub notifier: Arc<Count>,
}

impl SharedStanding {
    pub fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a response of `bytes` with its length prefix, or returns it for Python and ends.
    ///
    /// With a full buffer, the standing fetch holds its next request (`resume`).
    #[allow(clippy::result_large_err)] // a response is moved once
    pub fn absorb(
        &self,
        response: Response,
        bytes: usize,
        options: &DecodeOptions,
        now: Instant,
    ) -> Result<Absorbed, Response> {
        let mut standing = self.standing();
        let Some(steps) = standing.check(&response, now) else {
            self.end(&mut standing);
            return Err(response);
        };
        let full = standing.is_full(&steps, &self.queue);
        if !full && standing.exceeds_limit(&steps) {
            self.end(&mut standing);
            return Err(response);
        }
        let took = now - standing.sent;
        let (fetched, moved, total) = standing.take(response, &steps, options, now);
        let held = Held { moved, received: bytes, took, handed_over: false };
        let mut frame = None;
        if full {
            standing.held = Some(held);
            self.expect(&mut standing, 0);
        } else {
            frame = Some(self.send(&mut standing, &held, now));
        }
        Ok(Absorbed { frame, fetched, send_first: total >= FEW_BYTES })
    }

    /// Returns the next request after a response; both are counted now.
    fn send(&self, standing: &mut Standing, after: &Held, now: Instant) -> Vec<u8> {
        let frame = standing.next_request(&after.moved);
        standing.counts.received.add(after.received as u64);
        standing.counts.latencies_ms.add(after.took.as_millis() as u64);
        standing.counts.sent.add(frame.len() as u64);
        standing.repeats += 1;
        standing.sent = now;
        standing.took = after.took;
        self.queue.count(after.received, frame.len());
        let expected = standing.expected_bytes();
        self.expect(standing, expected);
        frame
    }

    fn expect(&self, standing: &mut Standing, bytes: i64) {
        self.queue.reserve(bytes - standing.expected);
        standing.expected = bytes;
    }

    /// Ends the standing fetch, because Python decides from here on.
    pub fn end(&self, standing: &mut Standing) {
        standing.ended = true;
        self.expect(standing, 0);
    }

    /// Since when the next request is held; None if there is none, or Python has taken over.
    pub fn held_since(&self) -> Option<Instant> {
        let standing = self.standing();
        standing.held.as_ref().filter(|held| !held.handed_over).map(|_| standing.sent)
    }

    pub fn version(&self) -> i16 {
        self.standing().template.version
    }

    /// How long the last response took if Python logs each repetition.
    pub fn report(&self) -> Option<Duration> {
        let standing = self.standing();
        standing.reports.then_some(standing.took)
    }

    /// When a held standing fetch ends in any case.
    pub fn until(&self) -> Instant {
        self.standing().until
    }

    /// The released bytes beyond which the next request need not be held any longer.
    pub fn enough(&self) -> i64 {
        self.queue.enough_for(self.standing().room)
    }

    /// Returns the held request if it can be sent now, because the buffer has room. The standing
    /// fetch ends if its time is over, or a partition holds more than its share.
    pub fn resume(&self, room: bool, now: Instant) -> Option<Vec<u8>> {
        let mut standing = self.standing();
        let held = standing.held.take()?;
        let over = |index: &usize| {
            let target = &standing.targets[*index];
            target.progress.held() >= target.limit
        };
        let ends = now >= standing.until || (room && held.moved.iter().any(over));
        if ends && !standing.ended {
            self.end(&mut standing);
        }
        if standing.ended || !room {
            standing.held = Some(held);
            return None;
        }
        Some(self.send(&mut standing, &held, now))
    }

    /// Returns a response for Python, once, if it has ended while it held its request; and the
    /// size of the response that Python has not counted.
    ///
    /// Invariant: it has no data, which is in the queue already, and it stands for the response to
    /// the last request. The session thus continues with the epoch after that, and nothing is in
    /// flight.
    pub fn hand_over(&self) -> Option<(Vec<u8>, usize)> {
        let mut standing = self.standing();
        if !standing.ended {
            return None;
        }
        let held = standing.held.as_mut().filter(|held| !held.handed_over)?;
        held.handed_over = true;
        let received = held.received;
        Some((request::empty_response(&standing.template), received))
    }

    /// Decodes and queues data, and wakes the application.
    pub fn deliver(&self, fetched: Vec<Fetched>, options: &DecodeOptions, budget: &Arc<Budget>) {
        if fetched.is_empty() {
            return;
        }
        // Invariant: what is decoded ahead fits into the buffer, too, or is no more than what was
        // received; the reader decodes the rest.
        let size: usize = fetched.iter().map(|each| each.size).sum();
        let left = self.standing().room - self.queue.held() - size as i64;
        let mut ahead = AHEAD_BYTES.min(usize::try_from(left).unwrap_or(0).max(size));
        for mut each in fetched {
            each.size += each.batches.decode_ahead(options, &mut ahead, budget);
            {
                let standing = self.standing();
                let progress = &standing.targets[each.index].progress;
                progress.buffered_bytes.fetch_add(each.size as i64, SeqCst);
            }
            self.queue.push(each);
        }
        self.notifier.notify();
    }
}

impl Standing {
    /// Returns the steps of a response without anything unusual; None if Python must decide.
    ///
    /// Invariant: usual is what Python would only queue. The session is the same, nothing is late,
    /// throttled, unknown or named twice, and nothing hints at a leader, replica or truncation.
    /// Each partition begins with the batch of its offset, in format v2.
    fn check(&self, response: &Response, now: Instant) -> Option<Vec<Step>> {
        let usual = !self.ended
            && self.held.is_none()
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
            steps.push(self.check_partition(partition)?);
        }
        if sorted(steps.iter().map(|step| step.index)).windows(2).any(|two| two[0] == two[1]) {
            return None;
        }
        let empty = steps.iter().all(|step| step.end_offset.is_none());
        if empty && now - self.sent < EMPTY_PAUSE { None } else { Some(steps) }
    }

    /// Tells whether the buffer has no room for another response after this one.
    ///
    /// Invariant: one counter holds what all fetches in flight may bring, standing ones and those of
    /// Python, and is read before the next one is sent. A response in flight arrives in any case, so the
    /// buffer may exceed its limit by one response per slot.
    fn is_full(&self, steps: &[Step], queue: &Shared) -> bool {
        let received: usize = steps.iter().map(|step| step.bytes).sum();
        received > 0
            && queue.held() + received as i64 + queue.reserved() - self.expected >= self.room
    }

    /// Tells whether a partition of this response may not be fetched further.
    fn exceeds_limit(&self, steps: &[Step]) -> bool {
        steps.iter().any(|step| {
            let target = &self.targets[step.index];
            step.bytes > 0 && target.progress.held() + step.bytes as i64 >= target.limit
        })
    }

    /// The most that the next response may bring for partitions that are behind.
    pub fn expected_bytes(&self) -> i64 {
        let committed = self.template.read_committed;
        let behind = self.targets.iter().filter(|target| target.is_behind(committed));
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
            && end_offset < target.stop_at;
        usual.then_some(Step { index, end_offset: Some(end_offset), bytes })
    }

    fn index_of(&self, partition: &Partition) -> Option<usize> {
        let first = self.numbers.partition_point(|(number, _)| *number < partition.partition);
        self.numbers[first..]
            .iter()
            .take_while(|(number, _)| *number == partition.partition)
            .map(|(_, index)| *index)
            .find(|index| match &partition.topic {
                Topic::Name(name) => **name == self.targets[*index].topic,
                Topic::Id(id) => *id == self.targets[*index].topic_id,
            })
    }

    /// Takes the data of a response, and moves its partitions. Returns the data, the partitions
    /// and the bytes.
    fn take(
        &mut self,
        response: Response,
        steps: &[Step],
        options: &DecodeOptions,
        now: Instant,
    ) -> (Vec<Fetched>, Vec<usize>, usize) {
        let took = now - self.sent;
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
        self.sent = now;
        let again = sorted(moved.iter().copied());
        self.order_of_moves.retain(|index| again.binary_search(index).is_err());
        self.order_of_moves.extend(&moved);
        (fetched, moved, total)
    }

    fn next_request(&mut self, moved: &[usize]) -> Vec<u8> {
        self.session_epoch =
            if self.session_epoch == MAX_EPOCH { 1 } else { self.session_epoch + 1 };
        for &index in moved {
            let target = &mut self.targets[index];
            target.requested = (target.offset, target.max_bytes);
        }
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

fn sorted(indices: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut sorted: Vec<usize> = indices.collect();
    sorted.sort_unstable();
    sorted
}

impl Target {
    /// True unless Python has moved the partition since, by a seek for example. Invariant: a
    /// standing fetch moves `read_ahead` only from its own offset.
    fn is_current(&self) -> bool {
        self.progress.read_ahead.load(SeqCst) == self.offset
    }

    /// True unless the end of what a fetch returns was reached.
    fn is_behind(&self, read_committed: bool) -> bool {
        let Progress { high_watermark, last_stable_offset, .. } = &*self.progress;
        let end = if read_committed { last_stable_offset } else { high_watermark };
        end.load(SeqCst) != self.offset
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
