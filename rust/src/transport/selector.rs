//! The Python bindings of the transport.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::MutexExt;
use pyo3::types::{PyString, PyTuple};

use super::channel::Event;
use super::engine::{Engine, Settings};
use super::expected::Kind;
use super::failure::Failure;
use super::socket::SocketOptions;
use super::tls::config::TlsConfig;
use super::watchdog::Shared;
use crate::batches::Budget;
use crate::buffer::Buffer;
use crate::fetch::{FetchFrame, Received, decode_frame};
use crate::frame::Frame;
use crate::options::DecodeOptions;
use crate::standing::{Absorbed, Shared as QueueShared, SharedStanding, StandingFetch};
use crate::wake::Wake;

/// The first item of a tuple from `poll`.
const OPENED: u8 = 0;
const FRAME: u8 = 1;
const LOST: u8 = 2;
const TLS_FAILED: u8 = 3;
const INVALID_FRAME: u8 = 4;
const KEPT_ALIVE: u8 = 5;
const TLS_UNSUPPORTED: u8 = 6;
const REPEATED: u8 = 7;

const LENGTH_PREFIX: usize = 4;

/// After a wait for the GIL of this length, poll again: responses may have arrived that would
/// otherwise seem overdue.
const LONG_GIL_WAIT: Duration = Duration::from_millis(100);

/// An event with a decoded frame; all remaining work needs the GIL.
enum Outcome {
    Opened(usize),
    Frame(usize, Frame),
    Fetched(usize, (FetchFrame, Frame)),
    KeptAlive(usize, Frame),
    Closed(usize, Failure),
    /// A standing fetch was repeated, after a response that took so long.
    Repeated(usize, Duration),
}

/// Connections by number, and their frames. Only the network thread calls methods, except `wakeup`.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Selector {
    shared: Arc<Shared>,
    wake: Arc<Wake>,
    options: DecodeOptions,
    ahead: Arc<Budget>,
    /// The standing fetches, by connection.
    standing: Mutex<HashMap<usize, Arc<SharedStanding>>>,
    /// The queue of all standing fetches.
    queue: OnceLock<Arc<QueueShared>>,
}

impl Selector {
    /// The engine; None after `close`. A thread that holds it never waits for the GIL.
    fn engine(&self, py: Python<'_>) -> MutexGuard<'_, Option<Engine>> {
        let engine = self.shared.engine.lock_py_attached(py);
        self.shared.touch();
        engine.unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls until there is something for Python. Standing fetches take their responses here.
    fn poll_detached(&self, timeout: Duration) -> std::io::Result<Vec<Outcome>> {
        let deadline = Instant::now() + timeout;
        loop {
            let (mut outcomes, until) = self.resume();
            let end = if outcomes.is_empty() {
                until.map_or(deadline, |at| at.min(deadline))
            } else {
                Instant::now()
            };
            let remaining = end.saturating_duration_since(Instant::now());
            let (events, woken) = {
                let engine = self.shared.engine.lock();
                let mut engine = engine.unwrap_or_else(PoisonError::into_inner);
                match engine.as_mut() {
                    Some(engine) => engine.poll(remaining, &self.wake)?,
                    None => (Vec::new(), true),
                }
            };
            outcomes.extend(events.into_iter().filter_map(|event| self.act(event)));
            self.shared.touch();
            if !outcomes.is_empty() || woken || Instant::now() >= deadline {
                return Ok(outcomes);
            }
        }
    }

    /// Sends the requests that standing fetches hold, the oldest first, as far as the buffer has
    /// room. Returns responses for Python on behalf of those that have ended, and when the first
    /// other one ends.
    fn resume(&self) -> (Vec<Outcome>, Option<Instant>) {
        let mut outcomes = Vec::new();
        let Some(queue) = self.queue.get() else { return (outcomes, None) };
        self.wake.take_nudge();
        loop {
            let mut held = self.held();
            let now = Instant::now();
            held.sort_by_key(|(since, ..)| *since);
            let enough = held.first().map_or(i64::MAX, |(.., standing)| standing.enough());
            let mut room = queue.wait_for(enough) > enough;
            let mut until = None;
            let mut changed = false;
            for (_, connection, standing) in held {
                if let Some(frame) = standing.resume(room, now) {
                    self.send_now(connection, frame);
                    outcomes
                        .extend(standing.report().map(|took| Outcome::Repeated(connection, took)));
                    (room, changed) = (false, true); // there is less room for the others
                } else if let Some((frame, size)) = standing.hand_over() {
                    self.standing().remove(&connection);
                    outcomes.push(handed_over(connection, frame, size, standing.version()));
                    changed = true;
                } else {
                    let at = standing.until();
                    until = Some(until.map_or(at, |known: Instant| known.min(at)));
                }
            }
            if !changed {
                return (outcomes, until);
            }
        }
    }

    /// The standing fetches that hold a request: since when, their connections and themselves.
    fn held(&self) -> Vec<(Instant, usize, Arc<SharedStanding>)> {
        let standing = self.standing();
        standing
            .iter()
            .filter_map(|(&number, each)| Some((each.held_since()?, number, Arc::clone(each))))
            .collect()
    }

    /// Decodes an event; None if a standing fetch has taken it.
    fn act(&self, event: Event) -> Option<Outcome> {
        match event {
            Event::Opened { connection } => Some(Outcome::Opened(connection)),
            Event::Closed { connection, failure } => Some(Outcome::Closed(connection, failure)),
            Event::Frame { connection, frame, kind } => match kind {
                Some(Kind::Fetch(version)) => self.fetched(connection, frame, version),
                Some(Kind::Beat { .. }) => Some(Outcome::KeptAlive(connection, frame.into())),
                _ => {
                    self.standing().remove(&connection); // Python expects no second response
                    Some(Outcome::Frame(connection, frame.into()))
                }
            },
        }
    }

    fn fetched(&self, connection: usize, received: Received, version: i16) -> Option<Outcome> {
        let block_bytes = received.block_bytes();
        let (bytes, blocks) = received.freeze();
        let mut decoded = decode_frame(&bytes, &blocks, version);
        drop(blocks);
        if let Some(standing) = self.standing_on(connection) {
            let size = bytes.len() + block_bytes + LENGTH_PREFIX;
            decoded = match decoded {
                Err(problem) => Err(problem),
                Ok(response) => {
                    match standing.absorb(response, size, &self.options, Instant::now()) {
                        Err(response) => Ok(response),
                        Ok(absorbed) => {
                            return self.repeat(connection, &standing, absorbed);
                        }
                    }
                }
            };
            self.standing().remove(&connection);
        }
        if let Ok(response) = &mut decoded {
            response.decode_ahead(&self.options, &self.ahead);
        }
        Some(Outcome::Fetched(connection, FetchFrame::new(bytes, block_bytes, decoded)))
    }

    fn repeat(
        &self,
        connection: usize,
        standing: &Arc<SharedStanding>,
        absorbed: Absorbed,
    ) -> Option<Outcome> {
        let Absorbed { mut frame, fetched, send_first } = absorbed;
        let report = if frame.is_some() { standing.report() } else { None };
        if send_first && let Some(frame) = frame.take() {
            self.send_now(connection, frame);
        }
        standing.deliver(fetched, &self.options, &self.ahead);
        if let Some(frame) = frame {
            self.send_now(connection, frame);
        }
        report.map(|took| Outcome::Repeated(connection, took))
    }

    fn send_now(&self, connection: usize, frame: Vec<u8>) {
        let engine = self.shared.engine.lock();
        let mut engine = engine.unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.as_mut() {
            engine.send_now(connection, frame);
        }
    }

    fn standing(&self) -> MutexGuard<'_, HashMap<usize, Arc<SharedStanding>>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing_on(&self, connection: usize) -> Option<Arc<SharedStanding>> {
        self.standing().get(&connection).cloned()
    }
}

/// The response that ends a standing fetch which held its next request.
fn handed_over(connection: usize, frame: Vec<u8>, size: usize, version: i16) -> Outcome {
    let elsewhere = size.saturating_sub(frame.len() + LENGTH_PREFIX);
    let bytes = Arc::new(Buffer::new(frame));
    let decoded = decode_frame(&bytes, &[], version);
    Outcome::Fetched(connection, FetchFrame::new(bytes, elsewhere, decoded))
}

fn tuple<'py>(py: Python<'py>, outcomes: Outcome) -> PyResult<Bound<'py, PyTuple>> {
    let text = |text: &str| PyString::new(py, text).into_any();
    let (kind, connection, what) = match outcomes {
        Outcome::Opened(connection) => (OPENED, connection, py.None().into_bound(py)),
        Outcome::Frame(connection, frame) => (FRAME, connection, Bound::new(py, frame)?.into_any()),
        Outcome::Fetched(connection, frame) => {
            (FRAME, connection, Bound::new(py, frame)?.into_any())
        }
        Outcome::KeptAlive(connection, frame) => {
            (KEPT_ALIVE, connection, Bound::new(py, frame)?.into_any())
        }
        Outcome::Repeated(connection, took) => {
            (REPEATED, connection, (took.as_millis() as u64).into_pyobject(py)?.into_any())
        }
        Outcome::Closed(connection, Failure::Lost(why)) => (LOST, connection, text(&why)),
        Outcome::Closed(connection, Failure::Tls(why)) => (TLS_FAILED, connection, text(&why)),
        Outcome::Closed(connection, Failure::Unsupported(why)) => {
            (TLS_UNSUPPORTED, connection, text(&why))
        }
        Outcome::Closed(connection, Failure::Frame(why)) => (INVALID_FRAME, connection, text(&why)),
    };
    (kind, connection, what).into_pyobject(py)
}

#[pymethods]
impl Selector {
    #[new]
    #[pyo3(signature = (
        *, receive_message_max_bytes, send_buffer_bytes, receive_buffer_bytes, socket_options,
        receive_budget_bytes, tls, read_committed, check_crcs, max_decompressed_batch_bytes,
        max_record_headers, decode_ahead_bytes
    ))]
    #[allow(clippy::too_many_arguments)] // options, passed by name
    fn new(
        receive_message_max_bytes: usize,
        send_buffer_bytes: Option<usize>,
        receive_buffer_bytes: Option<usize>,
        socket_options: Vec<(i32, i32, Vec<u8>)>,
        receive_budget_bytes: usize,
        tls: Option<Bound<'_, TlsConfig>>,
        read_committed: bool,
        check_crcs: bool,
        max_decompressed_batch_bytes: usize,
        max_record_headers: usize,
        decode_ahead_bytes: usize,
    ) -> PyResult<Self> {
        let engine = Engine::new(Settings {
            receive_message_max_bytes,
            receive_budget_bytes,
            socket: SocketOptions { send_buffer_bytes, receive_buffer_bytes, more: socket_options },
            tls: tls.map(|tls| Arc::clone(&tls.get().0)),
        })?;
        let wake = Arc::new(Wake::new(engine.waker()));
        let options = DecodeOptions {
            read_committed,
            check_crcs,
            max_decompressed_batch_bytes,
            max_record_headers,
        };
        let ahead = Budget::new(decode_ahead_bytes);
        let (shared, standing) = (Arc::new(Shared::new(engine)), Mutex::default());
        Ok(Selector { shared, wake, options, ahead, standing, queue: OnceLock::new() })
    }

    /// The number of system polls.
    #[getter]
    fn turns(&self, py: Python<'_>) -> u64 {
        self.engine(py).as_ref().map_or(0, |engine| engine.turns)
    }

    /// The number of heartbeats sent on behalf of Python.
    #[getter]
    fn beats(&self, py: Python<'_>) -> u64 {
        self.engine(py).as_ref().map_or(0, |engine| engine.beats)
    }

    fn connect(&self, py: Python<'_>, host: &str, ip: &str, port: i64, location: String) -> usize {
        self.engine(py).as_mut().map_or(0, |engine| engine.connect(host, ip, port, location))
    }

    /// Uses another TLS configuration for new connections.
    fn set_tls(&self, py: Python<'_>, tls: &Bound<'_, TlsConfig>) {
        if let Some(engine) = self.engine(py).as_mut() {
            engine.set_tls(Arc::clone(&tls.get().0));
        }
    }

    fn send(&self, py: Python<'_>, connection: usize, frame: PyBackedBytes) {
        if let Some(engine) = self.engine(py).as_mut() {
            engine.send(connection, frame.to_vec());
        }
    }

    /// Returns the events; releases the GIL once.
    fn poll<'py>(&self, py: Python<'py>, timeout_ms: i64) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
        let (outcome, ended) = py.detach(|| (self.poll_detached(timeout), Instant::now()));
        let mut outcomes = outcome.map_err(failed)?;
        if ended.elapsed() >= LONG_GIL_WAIT {
            // If this fails, so does the next call; the outcomes of the first poll are not lost.
            outcomes.extend(self.poll_detached(Duration::ZERO).unwrap_or_default());
        }
        outcomes.into_iter().map(|outcomes| tuple(py, outcomes)).collect()
    }

    /// Ends the running or the next `poll`. Callable from any thread, and from a signal handler.
    fn wakeup(&self) {
        self.wake.wake();
    }

    /// The number of bytes received on a connection, including incomplete frames.
    fn received_bytes(&self, py: Python<'_>, connection: usize) -> u64 {
        self.engine(py).as_ref().map_or(0, |engine| engine.received_bytes(connection))
    }

    /// Repeats the last fetch of a connection with this standing fetch, until it ends.
    fn repeat_fetches(&self, connection: usize, standing: &StandingFetch) {
        self.queue.get_or_init(|| Arc::clone(&standing.0.queue)).wake_by(&self.wake);
        self.standing().insert(connection, Arc::clone(&standing.0));
    }

    fn disconnect(&self, py: Python<'_>, connection: usize) {
        let standing = self.standing().remove(&connection);
        drop(standing);
        if let Some(engine) = self.engine(py).as_mut() {
            engine.disconnect(connection);
        }
    }

    /// Registers `frame`, a heartbeat without changes. It is sent once per period, for at most
    /// `left_ms`, whenever Python does not return to send one itself. Any request from Python that
    /// concerns its membership cancels the registration.
    fn keep_alive(
        &self,
        py: Python<'_>,
        connection: usize,
        frame: PyBackedBytes,
        period_ms: u64,
        left_ms: u64,
    ) {
        let (period, left) = (Duration::from_millis(period_ms), Duration::from_millis(left_ms));
        let due = self
            .engine(py)
            .as_mut()
            .and_then(|engine| engine.keep_alive(connection, frame.to_vec(), period, left));
        if let Some(due) = due {
            self.shared.watch(due);
        }
    }

    fn close(&self, py: Python<'_>) {
        self.shared.stop();
        let standing = std::mem::take(&mut *self.standing());
        drop(standing);
        let engine = self.engine(py).take();
        if let Some(mut engine) = engine {
            engine.flush();
        }
    }
}

impl Drop for Selector {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
