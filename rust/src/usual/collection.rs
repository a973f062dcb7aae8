//! The usual case of `FetchCollector.collect`, in one step.
//!
//! All records are native, and nothing else is to be told. New chunks that are read at once need no
//! objects; `open_taken` makes the objects that Python leaves behind
//! (`consumer/reading/fetch_collector.py`), so that it may continue at any time.

mod filling;
mod opened;
mod queued;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use pyo3::PyTypeInfo;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use crate::records::{Function, Records, Rows, deserialize_rows};
use crate::slots::{Slot, bare, made_as, slots};
use crate::standing::{ChunkQueue, FetchProgress};
use crate::usual::collection::filling::{Filling, Part, Room, Values};

slots!(Batch { next_offsets, starts });
slots!(Buffer { queue, starved });
slots!(Changes { count });
slots!(Collector {
    _deserializers,
    _subscription,
    _buffer,
    _wake_network,
    _open,
    _counting,
    _finished,
    max_bytes,
    busy,
    moved,
    publication,
    deserializing,
    raw
});
slots!(Consumed { base, position });
slots!(Handed { base, before, after, publication });
slots!(OpenedChunk { chunk, reader, taken, released, reading, _start });
slots!(Partition { tp, state, base, consumed, told, returnable, wait_for_drain });
slots!(Position { offset, leader_epoch });
slots!(Publication { done });
slots!(Subscription { assigned, changes, told_at });
slots!(Told { base });

/// The classes of the objects that a collection reads and makes.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct UsualCase {
    batch: Batch,
    no_starts: Py<PyAny>,
    buffer: Buffer,
    pub changes: Changes,
    pub collector: Collector,
    consumed: Consumed,
    pub handed: Handed,
    opened: OpenedChunk,
    pub partition: Partition,
    position: Position,
    pub publication: Publication,
    subscription: Subscription,
    told: Told,
    offset: Py<PyType>,
    fetching: Py<PyAny>,
}

/// What a collection takes chunks from.
pub struct Source<'a, 'py> {
    of: &'a UsualCase,
    pub collector: Bound<'py, PyAny>,
    subscription: Bound<'py, PyAny>,
    buffer: Bound<'py, PyAny>,
    pub queue: Bound<'py, ChunkQueue>,
    open: Bound<'py, PyDict>,
}

/// What one call has made.
pub struct Collected<'py> {
    pub batch: Bound<'py, PyDict>,
    next_offsets: Bound<'py, PyDict>,
    pub moved: Bound<'py, PyList>,
    pub publication: Bound<'py, PyAny>,
    /// The count of changes before the collection.
    pub seen: Bound<'py, PyAny>,
    pub returned: Vec<Returned<'py>>,
}

/// What a call returns of a partition.
pub struct Returned<'py> {
    pub state: Bound<'py, PyAny>,
    pub topic: Bound<'py, PyAny>,
    pub count: usize,
    /// The number of records behind it, if it is known.
    pub lag: Option<i64>,
    pub records: Bound<'py, Records>,
}

#[pymethods]
impl UsualCase {
    /// Args:
    ///     classes: The classes by their names.
    ///     no_starts: The usual `starts` of a batch.
    ///     fetching: The state in which a partition is read.
    #[new]
    fn new(
        classes: &Bound<'_, PyDict>,
        no_starts: Py<PyAny>,
        fetching: Py<PyAny>,
    ) -> PyResult<Self> {
        let class = |name: &str| -> PyResult<Bound<'_, PyType>> {
            Ok(classes.as_any().get_item(name)?.cast_into()?)
        };
        Ok(UsualCase {
            batch: Batch::of(&class("ConsumerRecords")?)?,
            no_starts,
            buffer: Buffer::of(&class("FetchBuffer")?)?,
            changes: Changes::of(&class("Changes")?)?,
            collector: Collector::of(&class("FetchCollector")?)?,
            consumed: Consumed::of(&class("Consumed")?)?,
            handed: Handed::of(&class("Handed")?)?,
            opened: OpenedChunk::of(&class("OpenedChunk")?)?,
            partition: Partition::of(&class("AssignedPartition")?)?,
            position: Position::of(&class("Position")?)?,
            publication: Publication::of(&class("Publication")?)?,
            subscription: Subscription::of(&class("SubscriptionState")?)?,
            told: Told::of(&class("Told")?)?,
            offset: class("OffsetAndMetadata")?.unbind(),
            fetching,
        })
    }

    /// Returns what `collector.collect(max_records)` would; other cases call that.
    fn collect<'py>(
        &self,
        collector: Bound<'py, PyAny>,
        max_records: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = collector.py();
        if let Some(source) = self.source(&collector)?
            && source.is_usual()?
            && source.begin()?
        {
            let mut made = source.made()?;
            if source.collect(&mut made, max_records)? {
                return Ok(made.batch.into_any());
            }
        }
        collector.call_method1(intern!(py, "collect"), (max_records,))
    }

    /// Opens the chunks that the native function has taken out of the queue, unless the call that
    /// took them has returned their records.
    fn open_taken(&self, collector: &Bound<'_, PyAny>) -> PyResult<()> {
        self.source(collector)?.map_or(Ok(()), |source| source.open_taken())
    }
}

impl UsualCase {
    /// What a collector takes chunks from; None without a native queue.
    pub fn source<'py>(&self, collector: &Bound<'py, PyAny>) -> PyResult<Option<Source<'_, 'py>>> {
        let buffer = self.collector._buffer.get(collector)?;
        let Ok(queue) = self.buffer.queue.get(&buffer)?.cast_into::<ChunkQueue>() else {
            return Ok(None);
        };
        Ok(Some(Source {
            of: self,
            collector: collector.clone(),
            subscription: self.collector._subscription.get(collector)?,
            buffer,
            queue,
            open: self.collector._open.get(collector)?.cast_into()?,
        }))
    }

    /// Whether the call that returned these records has ended.
    pub fn is_returned(&self, handed: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.publication.done.is_true(&self.handed.publication.get(handed)?)
    }

    /// `state.position`; None if iteration returns records of the partition one by one.
    fn position<'py>(
        &self,
        state: &Bound<'py, PyAny>,
        base: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let consumed = self.partition.consumed.get(state)?;
        if consumed.is_none() {
            return Ok(Some(base.clone()));
        }
        let kind = consumed.get_type();
        if kind.is(&self.handed.kind) {
            let slots = &self.handed;
            if !slots.base.is(&consumed, base)? {
                return Ok(Some(base.clone()));
            }
            let position = if self.is_returned(&consumed)? { &slots.after } else { &slots.before };
            return position.get(&consumed).map(Some);
        }
        if !consumed.getattr(intern!(state.py(), "base"))?.is(base) {
            return Ok(Some(base.clone()));
        }
        if kind.is(&self.consumed.kind) {
            return self.consumed.position.get(&consumed).map(Some);
        }
        Ok(None)
    }

    /// Adds the records of a partition, and prepares its new position.
    fn add<'py>(
        &self,
        part: &mut Part<'py>,
        made: &mut Collected<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = std::mem::take(&mut part.values);
        let Part { state, base, begin, .. } = &*part;
        let py = state.py();
        let (offset, epoch) = part.at;
        let tp = self.partition.tp.get(state)?;
        let at = bare(self.position.kind.bind(py))?;
        self.position.offset.set(&at, offset)?;
        self.position.leader_epoch.set(&at, epoch)?;
        let consumed = if let Some(rows) = part.joined() {
            let slots = &self.handed;
            let handed = bare(slots.kind.bind(py))?;
            slots.base.set(&handed, base)?;
            slots.before.set(&handed, begin)?;
            slots.after.set(&handed, &at)?;
            slots.publication.set(&handed, &made.publication)?;
            let watermark = state.cast::<FetchProgress>()?.get().0.high_watermark.load(SeqCst);
            let count = rows.len();
            let records = if values.is_empty() {
                Records::of(rows)
            } else {
                Records::deserialized(rows, values)
            };
            let records = Bound::new(py, records)?;
            made.batch.set_item(&tp, &records)?;
            made.returned.push(Returned {
                state: state.clone(),
                topic: tp.getattr(intern!(py, "topic"))?,
                count,
                lag: (watermark >= 0).then_some(watermark - offset),
                records,
            });
            handed
        } else {
            let consumed = bare(self.consumed.kind.bind(py))?;
            self.consumed.base.set(&consumed, base)?;
            self.consumed.position.set(&consumed, &at)?;
            consumed
        };
        self.partition.consumed.set(state, &consumed)?;
        if self.position.offset.int(begin)? != offset {
            made.moved.append(state)?;
            let fields = PyTuple::new(py, [(offset, "", epoch).into_pyobject(py)?])?;
            let after = made_as(&PyTuple::type_object(py), self.offset.bind(py), &fields)?;
            made.next_offsets.set_item(&tp, after)?;
        }
        Ok(consumed)
    }
}

impl<'py> Source<'_, 'py> {
    /// Begins a call, whose records are not published until it ends; returns false if Python must.
    pub fn begin(&self) -> PyResult<bool> {
        if !self.drop_returned()? {
            return Ok(false);
        }
        let publication = bare(self.of.publication.kind.bind(self.collector.py()))?;
        self.of.publication.done.set(&publication, false)?;
        self.of.collector.publication.set(&self.collector, &publication)?;
        Ok(true)
    }

    /// What the call has made so far: nothing.
    pub fn made(&self) -> PyResult<Collected<'py>> {
        let (of, py) = (self.of, self.collector.py());
        let kind = of.batch.kind.bind(py);
        let batch = made_as(kind, kind, &PyTuple::empty(py))?;
        let next_offsets = PyDict::new(py);
        of.batch.next_offsets.set(&batch, &next_offsets)?;
        of.batch.starts.set(&batch, &of.no_starts)?;
        Ok(Collected {
            batch: batch.cast_into()?,
            next_offsets,
            moved: PyList::empty(py),
            publication: of.collector.publication.get(&self.collector)?,
            seen: self.changes()?,
            returned: Vec::new(),
        })
    }

    /// Collects; returns false if Python must add the first chunk.
    pub fn collect(&self, made: &mut Collected<'py>, max_records: usize) -> PyResult<bool> {
        made.seen = self.changes()?;
        let busy = &self.of.collector.busy;
        busy.set(&self.collector, true)?;
        let collected = self.fill(made, max_records);
        busy.set(&self.collector, false)?;
        collected
    }

    /// Adds the next chunks; returns false if Python must add the first one.
    fn fill(&self, made: &mut Collected<'py>, max_records: usize) -> PyResult<bool> {
        let (collector, slots) = (&self.collector, &self.of.collector);
        self.wake_for_moved()?;
        slots.moved.set(collector, &made.moved)?;
        let bytes = slots.max_bytes.get(collector)?.extract()?;
        let room = Room { records: max_records, bytes, empty: true };
        let mut filling = Filling { parts: Vec::new(), room, released: false };
        let filled = if self.open.is_empty() {
            self.fill_from_queue(made, &mut filling)
        } else {
            self.fill_from_open(made, &mut filling)
        };
        // Also after an interrupt. The network thread may have found the buffer full meanwhile.
        if filling.released && self.starved()? {
            self.wake_network()?;
        }
        Ok(filled? || !made.moved.is_empty())
    }

    /// Publishing the last collection has moved positions, and did not wake the network thread.
    pub fn wake_for_moved(&self) -> PyResult<()> {
        if !self.starved()? {
            return Ok(());
        }
        for state in self.of.collector.moved.get(&self.collector)?.cast::<PyList>()? {
            if self.of.partition.wait_for_drain.is_true(&state)? {
                return self.wake_network();
            }
        }
        Ok(())
    }

    /// Wakes the network thread, also if a signal handler raises meanwhile: nothing would repeat it.
    fn wake_network(&self) -> PyResult<()> {
        let wake = self.of.collector._wake_network.get(&self.collector)?;
        wake.call0().or_else(|error| wake.call0().and(Err(error))).map(drop)
    }

    /// Counts bytes of a partition as released.
    fn release(&self, state: &Bound<'py, PyAny>, freed: i64) -> PyResult<()> {
        // Invariant: the partition first; a standing fetch that waits for room checks both.
        state.cast::<FetchProgress>()?.get().0.released_bytes.fetch_add(freed, SeqCst);
        self.queue.get().release(freed);
        Ok(())
    }

    /// The position of a partition, if what was fetched from a base may be returned now.
    fn place(
        &self,
        state: &Bound<'py, PyAny>,
        fetched_from: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (slots, py) = (&self.of.partition, self.collector.py());
        // Invariant: the state is read before the base.
        let fetching = slots.state.is(state, self.of.fetching.bind(py))?;
        let base = slots.base.get(state)?;
        let told = slots.told.get(state)?;
        if !fetching
            || !fetched_from.is(&base)
            || !slots.returnable.is_true(state)?
            || told.is_none()
            || !self.of.told.base.is(&told, &base)?
        {
            return Ok(None);
        }
        // Invariant: read each time; a deserializer or another thread may have replaced it.
        let found = self.assigned()?.get_item(slots.tp.get(state)?)?;
        if !found.is_some_and(|found| found.is(state)) {
            return Ok(None);
        }
        self.of.position(state, &base)
    }

    /// Whether nothing but records is to be looked at.
    pub fn is_usual(&self) -> PyResult<bool> {
        let slots = &self.of.collector;
        let is = |slot: &Slot| slot.is_true(&self.collector);
        Ok(!is(&slots.busy)?
            && slots._counting.is_none(&self.collector)?
            && self.of.subscription.told_at.is_number(&self.subscription, &self.changes()?)?)
    }

    /// Whether a collection runs code of the user.
    pub fn deserializes(&self) -> PyResult<bool> {
        let slots = &self.of.collector;
        Ok(slots.deserializing.is_true(&self.collector)? && !slots.raw.is_true(&self.collector)?)
    }

    /// Deserializes rows, as `_deserialize` of Python: up to the first failure, which is raised only
    /// if no record of the call precedes it. None if it must wait.
    fn values(&self, rows: &Arc<Rows>, first: bool) -> PyResult<Option<Values>> {
        let whole = |made| Ok(Some(Values { made, rows: Arc::clone(rows), failed_at: None }));
        if !self.deserializes()? {
            return whole(Vec::new());
        }
        let py = self.collector.py();
        let both = self.of.collector._deserializers.get(&self.collector)?;
        let of = |name: &Bound<'py, PyString>| -> PyResult<Function<'py>> {
            both.getattr(name)?.extract()
        };
        let (key, value) = (of(intern!(py, "_key"))?, of(intern!(py, "_value"))?);
        let (made, failure) = deserialize_rows(py, rows, [&key, &value])?;
        let Some((origin, error)) = failure else { return whole(made) };
        let count = made.len();
        if count > 0 {
            let failed_at = rows.place_of(count);
            return Ok(Some(Values { made, rows: Arc::new(rows.part(0, count)), failed_at }));
        }
        if !first {
            return Ok(None);
        }
        let record = Bound::new(py, Records::of(Arc::new(rows.part(0, 1))))?.get_item(0)?;
        let error = both.call_method1(intern!(py, "error_of"), (origin, error, record))?;
        Err(PyErr::from_value(error))
    }

    /// The count of changes.
    pub fn changes(&self) -> PyResult<Bound<'py, PyAny>> {
        self.of.changes.count.get(&self.of.subscription.changes.get(&self.subscription)?)
    }

    /// Whether a collection would find nothing.
    pub fn is_empty(&self) -> PyResult<bool> {
        Ok(self.queue.get().is_empty() && self.open.is_empty())
    }

    /// Whether the last collection was returned, and none is under way.
    pub fn is_published(&self) -> PyResult<bool> {
        let publication = self.of.collector.publication.get(&self.collector)?;
        self.of.publication.done.is_true(&publication)
    }

    /// Ends the last collection.
    pub fn publish(&self) -> PyResult<()> {
        let publication = self.of.collector.publication.get(&self.collector)?;
        self.of.publication.done.set(&publication, true)
    }

    /// Whether a partition is assigned.
    pub fn is_assigned(&self) -> PyResult<bool> {
        Ok(!self.assigned()?.is_empty())
    }

    fn assigned(&self) -> PyResult<Bound<'py, PyDict>> {
        Ok(self.of.subscription.assigned.get(&self.subscription)?.cast_into()?)
    }

    fn starved(&self) -> PyResult<bool> {
        self.of.buffer.starved.is_true(&self.buffer)
    }
}
