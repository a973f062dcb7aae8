//! What Python sees of the transport.

use std::sync::{Arc, MutexGuard, PoisonError};
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
use super::wake::Wake;
use super::watchdog::Shared;
use crate::batches::Budget;
use crate::frame::Frame;
use crate::options::DecodeOptions;

/// What a tuple of `poll` begins with.
const OPENED: u8 = 0;
const FRAME: u8 = 1;
const LOST: u8 = 2;
const TLS_FAILED: u8 = 3;
const INVALID_FRAME: u8 = 4;
const KEPT_ALIVE: u8 = 5;
const TLS_UNSUPPORTED: u8 = 6;

/// After a wait for the GIL as long as this there may be answers whose time would seem over.
const LATE: Duration = Duration::from_millis(100);

/// An event whose frame is decoded: all that is left to do needs the GIL.
enum Told {
    Opened(usize),
    Frame(usize, Frame),
    KeptAlive(usize, Frame),
    Closed(usize, Failure),
}

/// Connections by number, frames in and out; every method but `wakeup` is the network thread's.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Selector {
    shared: Arc<Shared>,
    wake: Wake,
    options: DecodeOptions,
    ahead: Arc<Budget>,
}

impl Selector {
    /// The engine, None once closed. Whoever holds it never waits for the GIL.
    fn engine(&self, py: Python<'_>) -> MutexGuard<'_, Option<Engine>> {
        let engine = self.shared.engine.lock_py_attached(py);
        self.shared.touch();
        engine.unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_detached(&self, timeout: Duration) -> std::io::Result<Vec<Told>> {
        let events = {
            let engine = self.shared.engine.lock();
            let mut engine = engine.unwrap_or_else(PoisonError::into_inner);
            match engine.as_mut() {
                Some(engine) => engine.poll(timeout, &self.wake)?,
                None => Vec::new(),
            }
        };
        let told = events.into_iter().map(|event| self.decoded(event)).collect();
        self.shared.touch();
        Ok(told)
    }

    fn decoded(&self, event: Event) -> Told {
        match event {
            Event::Opened { connection } => Told::Opened(connection),
            Event::Closed { connection, failure } => Told::Closed(connection, failure),
            Event::Frame { connection, frame, kind } => match kind {
                Some(Kind::Fetch(version)) => {
                    let frame = Frame::fetch(frame, version, &self.options, &self.ahead);
                    Told::Frame(connection, frame)
                }
                Some(Kind::Beat { .. }) => Told::KeptAlive(connection, Frame::plain(frame)),
                _ => Told::Frame(connection, Frame::plain(frame)),
            },
        }
    }
}

fn tuple<'py>(py: Python<'py>, told: Told) -> PyResult<Bound<'py, PyTuple>> {
    let text = |text: &str| PyString::new(py, text).into_any();
    let (kind, connection, what) = match told {
        Told::Opened(connection) => (OPENED, connection, py.None().into_bound(py)),
        Told::Frame(connection, frame) => (FRAME, connection, Bound::new(py, frame)?.into_any()),
        Told::KeptAlive(connection, frame) => {
            (KEPT_ALIVE, connection, Bound::new(py, frame)?.into_any())
        }
        Told::Closed(connection, Failure::Lost(why)) => (LOST, connection, text(&why)),
        Told::Closed(connection, Failure::Tls(why)) => (TLS_FAILED, connection, text(&why)),
        Told::Closed(connection, Failure::Unsupported(why)) => {
            (TLS_UNSUPPORTED, connection, text(&why))
        }
        Told::Closed(connection, Failure::Frame(why)) => (INVALID_FRAME, connection, text(&why)),
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
    #[allow(clippy::too_many_arguments)] // by name, each an option
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
        let wake = Wake::new(engine.waker());
        let options = DecodeOptions {
            read_committed,
            check_crcs,
            max_decompressed_batch_bytes,
            max_record_headers,
        };
        let ahead = Budget::new(decode_ahead_bytes);
        Ok(Selector { shared: Arc::new(Shared::new(engine)), wake, options, ahead })
    }

    /// How often the system has been asked for events.
    #[getter]
    fn turns(&self, py: Python<'_>) -> u64 {
        self.engine(py).as_ref().map_or(0, |engine| engine.turns)
    }

    /// How many heartbeats were sent in Python's place.
    #[getter]
    fn beats(&self, py: Python<'_>) -> u64 {
        self.engine(py).as_ref().map_or(0, |engine| engine.beats)
    }

    fn connect(&self, py: Python<'_>, host: &str, ip: &str, port: i64, location: String) -> usize {
        self.engine(py).as_mut().map_or(0, |engine| engine.connect(host, ip, port, location))
    }

    fn send(&self, py: Python<'_>, connection: usize, frame: PyBackedBytes) {
        if let Some(engine) = self.engine(py).as_mut() {
            engine.send(connection, frame.to_vec());
        }
    }

    /// Returns what happened; lets go of the GIL once.
    fn poll<'py>(&self, py: Python<'py>, timeout_ms: i64) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
        let (outcome, ended) = py.detach(|| (self.poll_detached(timeout), Instant::now()));
        let mut told = outcome.map_err(failed)?;
        if ended.elapsed() >= LATE {
            told.extend(self.poll_detached(Duration::ZERO).map_err(failed)?);
        }
        told.into_iter().map(|told| tuple(py, told)).collect()
    }

    /// Ends the running or the next `poll`; from any thread, and from a signal handler.
    fn wakeup(&self) {
        self.wake.wake();
    }

    /// How many bytes have come on a connection, whole frames or not.
    fn received_bytes(&self, py: Python<'_>, connection: usize) -> u64 {
        self.engine(py).as_ref().map_or(0, |engine| engine.received_bytes(connection))
    }

    fn disconnect(&self, py: Python<'_>, connection: usize) {
        if let Some(engine) = self.engine(py).as_mut() {
            engine.disconnect(connection);
        }
    }

    /// Has `frame`, a heartbeat that says nothing new, sent once in each period for as long as
    /// `left_ms` whenever Python does not come back to send one itself. Whatever it sends about
    /// its membership ends that.
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
