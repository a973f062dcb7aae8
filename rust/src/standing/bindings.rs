//! The standing fetch as Python sees it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::batches::Budget;
use crate::buffer::Buffer;
use crate::fetch::decode_frame;
use crate::options::DecodeOptions;
use crate::standing::counts::{Counts, Sizes};
use crate::standing::notifier::Notifier;
use crate::standing::progress::FetchProgress;
use crate::standing::queue::{ChunkQueue, Origin};
use crate::standing::request::{self, Template};
use crate::standing::state::{LATE, SharedStanding, Standing, Target};

/// The standing fetch for one connection.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct StandingFetch(pub Arc<SharedStanding>);

type Triple = (u64, u64, u64);
/// A partition as `end` returns it.
type Moved = (usize, i64, i32, Option<i32>);

#[pymethods]
impl StandingFetch {
    /// `targets` has a `GrantedTarget` of fetching/standing.py for each partition of the session.
    #[new]
    #[pyo3(signature = (
        *, queue, notifier, version, correlation_id, client_id, max_wait_ms, min_bytes, max_bytes,
        read_committed, session_id, session_epoch, rack, targets, smallest_bytes, largest_bytes, room, lasts_ms, reports
    ))]
    #[allow(clippy::too_many_arguments)] // all by name
    fn new(
        queue: &ChunkQueue,
        notifier: &Notifier,
        version: i16,
        correlation_id: i32,
        client_id: Option<String>,
        max_wait_ms: i32,
        min_bytes: i32,
        max_bytes: i32,
        read_committed: bool,
        session_id: i32,
        session_epoch: i32,
        rack: String,
        targets: Vec<GrantedTarget<'_>>,
        smallest_bytes: i32,
        largest_bytes: i32,
        room: i64,
        lasts_ms: u64,
        reports: bool,
    ) -> Self {
        let now = Instant::now();
        let targets: Vec<Target> = targets.into_iter().map(Target::from).collect();
        let by_number = targets.iter().enumerate().map(|(index, target)| (target.partition, index));
        let mut numbers: Vec<(i32, usize)> = by_number.collect();
        numbers.sort_unstable();
        let mut standing = Standing {
            template: Template {
                version,
                correlation_id,
                client_id,
                max_wait_ms,
                min_bytes,
                max_bytes,
                read_committed,
                session_id,
                rack,
            },
            session_epoch,
            targets,
            numbers,
            order_of_moves: Vec::new(),
            largest_bytes,
            smallest_bytes,
            response_bytes: i64::from(max_bytes),
            room,
            expected: 0,
            held: None,
            reports,
            took: Duration::ZERO,
            until: now + Duration::from_millis(lasts_ms),
            late: Duration::from_millis(max_wait_ms.max(0) as u64) + LATE,
            sent: now,
            repeats: 0,
            ended: !request::SUPPORTED.contains(&version),
            counts: Counts::default(),
        };
        standing.expected = standing.expected_bytes();
        queue.shared.reserve(standing.expected);
        StandingFetch(Arc::new(SharedStanding {
            standing: Mutex::new(standing),
            queue: Arc::clone(&queue.shared),
            notifier: Arc::clone(&notifier.0),
        }))
    }

    /// Ends it. Returns the session epoch of the fetch in flight, and for each partition that was
    /// moved, in the order of their last requests: its index, offset and size, and
    /// its next size if it was adjusted. If the next request is held, nothing is in flight: these are
    /// those of the last one, and the response to it follows (`hand_over`).
    fn end(&self) -> (i32, Vec<Moved>) {
        let mut standing = self.0.standing();
        self.0.end(&mut standing);
        let moves = standing.order_of_moves.iter().map(|&index| {
            let target = &standing.targets[index];
            let (offset, max_bytes) = target.requested;
            (index, offset, max_bytes, target.resized.then_some(target.max_bytes))
        });
        (standing.session_epoch, moves.collect())
    }

    /// Takes a response frame as the transport does, and returns the next request, which is empty if
    /// it is held; None if Python must handle it. For tests, which may say how long the response took.
    #[pyo3(signature = (frame, took_ms=None))]
    fn respond(&self, py: Python<'_>, frame: &[u8], took_ms: Option<u64>) -> Option<Py<PyBytes>> {
        let options = DecodeOptions {
            read_committed: self.0.standing().template.read_committed,
            check_crcs: true,
            max_decompressed_batch_bytes: 1 << 30,
            max_record_headers: 1 << 20,
        };
        let (version, sent) = {
            let standing = self.0.standing();
            (standing.template.version, standing.sent)
        };
        let now = took_ms.map_or_else(Instant::now, |took| sent + Duration::from_millis(took));
        let frame = Arc::new(Buffer::new(frame.to_vec()));
        let response = decode_frame(&frame, &[], version).ok()?;
        let absorbed = self.0.absorb(response, frame.len() + 4, &options, now).ok()?;
        self.0.deliver(absorbed.fetched, &options, &Budget::new(1 << 20));
        Some(PyBytes::new(py, &absorbed.frame.unwrap_or_default()).unbind())
    }

    /// Returns the held request as the transport does, `held_ms` after the response, once there is
    /// room for it. For tests.
    fn resume(&self, py: Python<'_>, held_ms: u64) -> Option<Py<PyBytes>> {
        let now = self.0.held_since()? + Duration::from_millis(held_ms);
        let room = self.0.queue.released() > self.0.enough();
        self.0.resume(room, now).map(|frame| PyBytes::new(py, &frame).unbind())
    }

    /// Returns the response for Python if it has ended while its request was held, and the size to
    /// count for it. For tests.
    fn hand_over(&self, py: Python<'_>) -> Option<(Py<PyBytes>, usize)> {
        let (frame, size) = self.0.hand_over()?;
        Some((PyBytes::new(py, &frame).unbind(), size))
    }

    /// The number of repetitions, and how many ms ago the last one was sent. If the next one is held:
    /// how many ms ago the last response arrived, and how long it took.
    fn progress(&self) -> (u64, u64, Option<u64>) {
        let standing = self.0.standing();
        let took = standing.held.as_ref().map(|held| held.took.as_millis() as u64);
        (standing.repeats, standing.sent.elapsed().as_millis() as u64, took)
    }

    /// Returns and resets what was measured, each as number, sum and maximum: the sizes of responses
    /// and requests, the latencies in ms, the sizes of the records of a
    /// response, and of each topic.
    #[allow(clippy::type_complexity)] // one place unpacks it
    fn take_counts(&self) -> (Triple, Triple, Triple, Triple, Vec<(String, Triple)>) {
        let counts = std::mem::take(&mut self.0.standing().counts);
        let triple = |sizes: Sizes| (sizes.0, sizes.1, sizes.2);
        (
            triple(counts.received),
            triple(counts.sent),
            triple(counts.latencies_ms),
            triple(counts.records),
            counts.topics.into_iter().map(|(topic, sizes)| (topic, triple(sizes))).collect(),
        )
    }
}

/// A partition as Python passes it.
#[derive(FromPyObject)]
pub struct GrantedTarget<'py> {
    #[pyo3(item(0))]
    state: Bound<'py, PyAny>,
    #[pyo3(item(1))]
    base: Bound<'py, PyAny>,
    #[pyo3(item(2))]
    topic: String,
    #[pyo3(item(2))]
    topic_object: Bound<'py, PyString>,
    #[pyo3(item(3))]
    topic_id: [u8; 16],
    #[pyo3(item(4))]
    partition: i32,
    #[pyo3(item(5))]
    leader_epoch: i32,
    #[pyo3(item(6))]
    offset: i64,
    #[pyo3(item(7))]
    max_bytes: i32,
    #[pyo3(item(8))]
    stop_at: i64,
    #[pyo3(item(9))]
    limit: i64,
    #[pyo3(item(10))]
    progress: PyRef<'py, FetchProgress>,
}

impl From<GrantedTarget<'_>> for Target {
    fn from(granted: GrantedTarget<'_>) -> Self {
        let origin = Origin {
            state: granted.state.unbind(),
            base: granted.base.unbind(),
            topic: granted.topic_object.unbind(),
        };
        Target {
            progress: Arc::clone(&granted.progress.0),
            origin: Arc::new(origin),
            topic: granted.topic,
            topic_id: granted.topic_id,
            partition: granted.partition,
            leader_epoch: granted.leader_epoch,
            offset: granted.offset,
            max_bytes: granted.max_bytes,
            stop_at: granted.stop_at,
            limit: granted.limit,
            requested: (granted.offset, granted.max_bytes),
            resized: false,
        }
    }
}
