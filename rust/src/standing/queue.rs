//! The queue of fetched data, from the network thread to the application thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::batches::Batches;
use crate::options::DecodeOptions;
use crate::records::{RecordReader, Rows, UnderGil};
use crate::slots::{bare, slots};
use crate::wake::Wake;

/// Memory of a chunk besides its records; CHUNK_BYTES in state/fetch_buffer.py.
pub const CHUNK_BYTES: usize = 1_024;

/// The Python objects of a partition. They are created and used only with the GIL.
pub struct Origin {
    pub state: Py<PyAny>,
    pub base: Py<PyAny>,
    pub topic: Py<PyString>,
}

/// What a standing fetch has received for one partition.
pub struct Fetched {
    /// The partition's index in its order.
    pub index: usize,
    pub origin: Arc<Origin>,
    pub partition: i32,
    pub fetch_offset: i64,
    pub leader_epoch: i32,
    pub batches: Batches,
    pub options: DecodeOptions,
    /// The size that was added to the counters.
    pub size: usize,
}

/// A chunk that has its reader.
pub enum Opened {
    /// Python has not finished it yet.
    Begun {
        origin: Arc<Origin>,
        reader: Py<RecordReader>,
        size: i64,
    },
    Chunk(Py<PyAny>),
}

impl Opened {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Opened::Begun { origin, reader, size } => Opened::Begun {
                origin: Arc::clone(origin),
                reader: reader.clone_ref(py),
                size: *size,
            },
            Opened::Chunk(chunk) => Opened::Chunk(chunk.clone_ref(py)),
        }
    }
}

/// What was read of a chunk that is no longer in the queue, and that the call may not have returned.
pub struct Taken {
    pub chunk: Opened,
    pub state: Py<PyAny>,
    /// Where the reader began, and what it has read.
    pub start: i64,
    pub rows: Arc<Rows>,
    /// The bytes that are counted; 0 once it is released.
    pub counted: i64,
    /// What has become the `consumed` of the partition with it, if anything.
    pub consumed: Option<Py<PyAny>>,
}

enum Item {
    Fetched(Box<Fetched>),
    Opened(Opened),
}

#[derive(Default)]
pub struct Shared {
    items: Mutex<VecDeque<Item>>,
    // Writer, unless noted: the network thread, in Python or in a standing fetch.
    added: AtomicU64,
    added_bytes: AtomicI64,
    /// The number of repeated fetches, and the bytes received and sent for them.
    repeated: [AtomicU64; 3],
    /// The bytes that the application has released. Writer: the application thread.
    released_bytes: AtomicI64,
    /// What all fetches in flight may bring, of standing fetches and of Python.
    reserved_bytes: AtomicI64,
    /// More released bytes than this wake the network thread: a standing fetch waits for room.
    enough: Enough,
    wake: OnceLock<Arc<Wake>>,
}

/// No number of bytes is enough while no standing fetch waits.
struct Enough(AtomicI64);

impl Default for Enough {
    fn default() -> Self {
        Enough(AtomicI64::new(i64::MAX))
    }
}

impl Shared {
    pub fn reserve(&self, bytes: i64) {
        self.reserved_bytes.fetch_add(bytes, SeqCst);
    }

    pub fn reserved(&self) -> i64 {
        self.reserved_bytes.load(SeqCst)
    }

    /// Has `wake` called when a standing fetch that waits for room may continue.
    pub fn wake_by(&self, wake: &Arc<Wake>) {
        self.wake.get_or_init(|| Arc::clone(wake));
    }

    /// Asks to be woken when more than this is released, and returns what is released now.
    ///
    /// Invariant: written before the released bytes are read, as `set_released_bytes` does it the
    /// other way round. One of the two threads therefore sees the other's number.
    pub fn wait_for(&self, enough: i64) -> i64 {
        self.enough.0.store(enough, SeqCst);
        self.released_bytes.load(SeqCst)
    }

    pub fn released(&self) -> i64 {
        self.released_bytes.load(SeqCst)
    }

    /// The released bytes beyond which fetches in flight and one more find room: the rule of
    /// `FetchRequestManager._has_room`.
    pub fn enough_for(&self, room: i64) -> i64 {
        self.added_bytes.load(SeqCst) + self.reserved() - room
    }

    /// The number of chunks that were ever added.
    pub fn added(&self) -> u64 {
        self.added.load(SeqCst)
    }

    /// The bytes that were added and not released.
    pub fn held(&self) -> i64 {
        self.added_bytes.load(SeqCst) - self.released_bytes.load(SeqCst)
    }

    /// Counts a response to a standing fetch and the next request.
    pub fn count(&self, received: usize, sent: usize) {
        for (total, more) in self.repeated.iter().zip([1, received, sent]) {
            total.fetch_add(more as u64, SeqCst);
        }
    }

    fn items(&self) -> MutexGuard<'_, VecDeque<Item>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what a standing fetch has received; the partition has counted it already.
    pub fn push(&self, fetched: Fetched) {
        self.added_bytes.fetch_add(fetched.size as i64, SeqCst);
        self.items().push_back(Item::Fetched(Box::new(fetched)));
        self.added.fetch_add(1, SeqCst);
    }
}

slots!(Chunk { partition, base, reader, counted_bytes, error, sticky });

/// A first-in, first-out queue. One thread appends and one removes. Invariant: nobody waits for the
/// GIL while holding its lock.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct ChunkQueue {
    pub shared: Arc<Shared>,
    /// `CompletedFetch`.
    pub chunk: Chunk,
    /// What the last call has taken.
    pub taken: UnderGil<VecDeque<Taken>>,
}

#[pymethods]
impl ChunkQueue {
    #[new]
    fn new(chunk: &Bound<'_, PyType>) -> PyResult<Self> {
        let (chunk, taken) = (Chunk::of(chunk)?, UnderGil::new(VecDeque::new()));
        Ok(ChunkQueue { shared: Arc::default(), chunk, taken })
    }

    /// Appends a chunk.
    fn append(&self, chunk: Py<PyAny>, size: i64) {
        self.shared.added_bytes.fetch_add(size, SeqCst);
        self.shared.items().push_back(Item::Opened(Opened::Chunk(chunk)));
        self.shared.added.fetch_add(1, SeqCst);
    }

    /// The number of chunks that were ever added.
    #[getter]
    fn added(&self) -> u64 {
        self.shared.added()
    }

    #[getter]
    fn added_bytes(&self) -> i64 {
        self.shared.added_bytes.load(SeqCst)
    }

    #[getter]
    fn released_bytes(&self) -> i64 {
        self.shared.released_bytes.load(SeqCst)
    }

    #[setter]
    fn set_released_bytes(&self, bytes: i64) {
        self.release(bytes - self.shared.released());
    }

    /// The bytes that all fetches in flight may bring.
    #[getter]
    fn reserved_bytes(&self) -> i64 {
        self.shared.reserved()
    }

    /// Counts what a fetch in flight may bring; a negative number for less than before.
    fn reserve(&self, bytes: i64) {
        self.shared.reserve(bytes);
    }

    /// The number of all fetches that were repeated, and the bytes received and sent for them.
    #[getter]
    fn repeated(&self) -> (u64, u64, u64) {
        let [fetches, received, sent] = &self.shared.repeated;
        (fetches.load(SeqCst), received.load(SeqCst), sent.load(SeqCst))
    }

    fn __len__(&self) -> usize {
        self.shared.items().len()
    }

    /// The oldest chunk, which stays in the queue; None if the queue is empty.
    ///
    /// An allocation may fail. The next call then makes the chunk again, of the same reader.
    pub fn first(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(opened) = self.look(py)? else { return Ok(None) };
        if let Opened::Chunk(chunk) = opened {
            return Ok(Some(chunk));
        }
        let chunk = self.chunk_of(py, &opened)?;
        let before = {
            let made = Item::Opened(Opened::Chunk(chunk.clone_ref(py)));
            self.shared.items().front_mut().map(|front| std::mem::replace(front, made))
        };
        drop(before); // not under the lock: it may run Python code
        Ok(Some(chunk))
    }

    /// Removes and returns the oldest chunk.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let chunk = self.first(py)?;
        self.drop_first();
        Ok(chunk)
    }
}

impl ChunkQueue {
    /// Counts released bytes. Writer: the application thread.
    pub fn release(&self, bytes: i64) {
        let released = self.shared.released() + bytes;
        self.shared.released_bytes.store(released, SeqCst);
        if released > self.shared.enough.0.load(SeqCst)
            && let Some(wake) = self.shared.wake.get()
        {
            wake.nudge();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.shared.items().is_empty()
    }

    /// The oldest chunk, which stays in the queue; None if the queue is empty.
    pub fn look(&self, py: Python<'_>) -> PyResult<Option<Opened>> {
        if let Some(fetched) = self.take_fetched() {
            let reader = RecordReader::open(
                fetched.origin.topic.clone_ref(py),
                fetched.partition,
                fetched.fetch_offset,
                &fetched.batches,
                fetched.leader_epoch,
                &fetched.options,
            );
            // An allocation that fails is the only possible error; then the next call tries again.
            let (item, error) = match Py::new(py, reader) {
                Ok(reader) => {
                    let Fetched { origin, size, .. } = *fetched;
                    let size = size as i64;
                    (Item::Opened(Opened::Begun { origin, reader, size }), None)
                }
                Err(error) => (Item::Fetched(fetched), Some(error)),
            };
            self.shared.items().push_front(item);
            if let Some(error) = error {
                return Err(error);
            }
        }
        match self.shared.items().front() {
            Some(Item::Opened(opened)) => Ok(Some(opened.clone_ref(py))),
            Some(Item::Fetched(_)) | None => Ok(None),
        }
    }

    /// Removes the oldest chunk.
    pub fn drop_first(&self) {
        let taken = self.shared.items().pop_front();
        drop(taken); // not under the lock: it may run Python code
    }

    /// Returns the `CompletedFetch`, made without its constructor, so that no Python code runs.
    pub fn chunk_of(&self, py: Python<'_>, opened: &Opened) -> PyResult<Py<PyAny>> {
        let (origin, reader, size) = match opened {
            Opened::Begun { origin, reader, size } => (origin, reader, *size),
            Opened::Chunk(chunk) => return Ok(chunk.clone_ref(py)),
        };
        let slots = &self.chunk;
        let chunk = bare(slots.kind.bind(py))?;
        slots.partition.set(&chunk, &origin.state)?;
        slots.base.set(&chunk, &origin.base)?;
        slots.reader.set(&chunk, reader)?;
        slots.counted_bytes.set(&chunk, size)?;
        slots.error.set(&chunk, py.None())?;
        slots.sticky.set(&chunk, false)?;
        Ok(chunk.unbind())
    }

    fn take_fetched(&self) -> Option<Box<Fetched>> {
        let mut items = self.shared.items();
        match items.pop_front() {
            Some(Item::Fetched(fetched)) => Some(fetched),
            Some(other) => {
                items.push_front(other);
                None
            }
            None => None,
        }
    }
}
