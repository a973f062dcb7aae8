//! The usual case of `FetchCollector.collect`, in one step.
//!
//! Every partition has one new chunk, which fits as a whole or from its beginning, and nothing else
//! is to be told. Python leaves the same objects behind (`consumer/reading/fetch_collector.py`), so
//! that it may continue at any time.

use std::sync::atomic::Ordering::SeqCst;

use pyo3::PyTypeInfo;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::bare::bare;
use crate::records::reader::RecordReader;
use crate::records::sequence::Records;
use crate::standing::{CHUNK_BYTES, ChunkQueue, FetchProgress};

/// The classes of the objects that a collection makes.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct UsualCase {
    batch: Py<PyType>,
    no_starts: Py<PyAny>,
    opened: Py<PyType>,
    deque: Py<PyType>,
    handed: Py<PyType>,
    consumed: Py<PyType>,
    position: Py<PyType>,
    publication: Py<PyType>,
    offset: Py<PyType>,
    fetching: Py<PyAny>,
}

/// What one collection has made.
struct Collected<'py> {
    batch: Bound<'py, PyDict>,
    next_offsets: Bound<'py, PyDict>,
    moved: Bound<'py, PyList>,
    finished: Bound<'py, PyList>,
    publication: Bound<'py, PyAny>,
}

/// What may still be added, as `Room` of `opened_chunk.py`.
struct Room {
    records: usize,
    bytes: i64,
    empty: bool,
}

impl Room {
    fn add(&mut self, count: usize, size: i64) -> bool {
        let left = self.bytes - size;
        if left < 0 && !self.empty {
            self.records = 0;
            return false;
        }
        self.bytes = left;
        self.records = if left > 0 { self.records - count } else { 0 };
        self.empty &= count == 0;
        true
    }
}

/// A chunk that may be returned now.
struct Next<'py> {
    chunk: Bound<'py, PyAny>,
    state: Bound<'py, PyAny>,
    tp: Bound<'py, PyAny>,
    base: Bound<'py, PyAny>,
    begin: Bound<'py, PyAny>,
    reader: Bound<'py, RecordReader>,
}

#[pymethods]
impl UsualCase {
    #[new]
    #[allow(clippy::too_many_arguments)] // the classes that a collection makes objects of
    fn new(
        batch: Py<PyType>,
        no_starts: Py<PyAny>,
        opened: Py<PyType>,
        deque: Py<PyType>,
        handed: Py<PyType>,
        consumed: Py<PyType>,
        position: Py<PyType>,
        publication: Py<PyType>,
        offset: Py<PyType>,
        fetching: Py<PyAny>,
    ) -> Self {
        UsualCase {
            batch,
            no_starts,
            opened,
            deque,
            handed,
            consumed,
            position,
            publication,
            offset,
            fetching,
        }
    }

    /// Returns what `collector.collect(max_records)` would; other cases call that.
    fn collect<'py>(
        &self,
        collector: &Bound<'py, PyAny>,
        max_records: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = collector.py();
        let subscription = collector.getattr(intern!(py, "_subscription"))?;
        let buffer = collector.getattr(intern!(py, "_buffer"))?;
        let open = collector.getattr(intern!(py, "_open"))?;
        if is_usual(collector, &subscription, &buffer)? && drop_finished(collector, &open)? {
            let made = self.begin(py)?;
            collector.setattr(intern!(py, "busy"), true)?;
            let collected = self.fill(collector, &subscription, &buffer, &open, &made, max_records);
            collector.setattr(intern!(py, "busy"), false)?;
            if collected? {
                return Ok(made.batch.into_any());
            }
        }
        collector.call_method1(intern!(py, "collect"), (max_records,))
    }
}

impl UsualCase {
    fn begin<'py>(&self, py: Python<'py>) -> PyResult<Collected<'py>> {
        let batch = bare(self.batch.bind(py))?;
        let next_offsets = PyDict::new(py);
        batch.setattr(intern!(py, "next_offsets"), &next_offsets)?;
        batch.setattr(intern!(py, "starts"), &self.no_starts)?;
        Ok(Collected {
            batch: batch.cast_into()?,
            next_offsets,
            moved: PyList::empty(py),
            finished: PyList::empty(py),
            publication: bare(self.publication.bind(py))?,
        })
    }

    /// Adds the chunks in the queue; returns false if Python must add the first one.
    fn fill<'py>(
        &self,
        collector: &Bound<'py, PyAny>,
        subscription: &Bound<'py, PyAny>,
        buffer: &Bound<'py, PyAny>,
        open: &Bound<'py, PyAny>,
        made: &Collected<'py>,
        max_records: usize,
    ) -> PyResult<bool> {
        let py = collector.py();
        collector.setattr(intern!(py, "_finished"), &made.finished)?;
        collector.setattr(intern!(py, "moved"), &made.moved)?;
        collector.setattr(intern!(py, "publication"), &made.publication)?;
        let queue = buffer.getattr(intern!(py, "queue"))?;
        let queue = queue.cast::<ChunkQueue>()?;
        let assigned = subscription.getattr(intern!(py, "assigned"))?;
        let bytes = collector.getattr(intern!(py, "max_bytes"))?.extract()?;
        let mut room = Room { records: max_records, bytes, empty: true };
        let mut usual = true;
        while usual
            && room.records > 0
            && let Some(chunk) = queue.get().first(py)?
        {
            let next = self.look(chunk.into_bound(py), &assigned, open)?;
            usual = match next {
                Some(next) => self.add(&next, queue, open, made, &mut room)?,
                None => false,
            };
        }
        if !made.finished.is_empty() && buffer.getattr(intern!(py, "starved"))?.is_truthy()? {
            collector.getattr(intern!(py, "_wake_network"))?.call0()?;
        }
        Ok(usual || !made.moved.is_empty())
    }

    /// Returns the chunk with what is needed of it, unless Python must look at it.
    fn look<'py>(
        &self,
        chunk: Bound<'py, PyAny>,
        assigned: &Bound<'py, PyAny>,
        open: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Next<'py>>> {
        let py = chunk.py();
        let state = chunk.getattr(intern!(py, "partition"))?;
        let tp = state.getattr(intern!(py, "tp"))?;
        // Invariant: the state is read before the base.
        let fetching = state.getattr(intern!(py, "state"))?.is(&self.fetching);
        let base = state.getattr(intern!(py, "base"))?;
        let told = state.getattr(intern!(py, "told"))?;
        let Ok(reader) = chunk.getattr(intern!(py, "reader"))?.cast_into::<RecordReader>() else {
            return Ok(None);
        };
        if !fetching
            || !chunk.getattr(intern!(py, "base"))?.is(&base)
            || !chunk.getattr(intern!(py, "error"))?.is_none()
            || !state.getattr(intern!(py, "returnable"))?.is_truthy()?
            || told.is_none()
            || !told.getattr(intern!(py, "base"))?.is(&base)
            || open.contains(&state)?
            || !assigned.call_method1(intern!(py, "get"), (&tp,))?.is(&state)
        {
            return Ok(None);
        }
        let begin = self.position(&state, &base)?;
        Ok(begin.map(|begin| Next { chunk, state, tp, base, begin, reader }))
    }

    /// `state.position`; None if iteration returns records of the partition one by one.
    fn position<'py>(
        &self,
        state: &Bound<'py, PyAny>,
        base: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = state.py();
        let consumed = state.getattr(intern!(py, "consumed"))?;
        if consumed.is_none() || !consumed.getattr(intern!(py, "base"))?.is(base) {
            return Ok(Some(base.clone()));
        }
        let kind = consumed.get_type();
        if kind.is(&self.consumed) {
            return consumed.getattr(intern!(py, "position")).map(Some);
        }
        if !kind.is(&self.handed) {
            return Ok(None);
        }
        let published = consumed.getattr(intern!(py, "publication"))?;
        let done = published.getattr(intern!(py, "done"))?.is_truthy()?;
        let name = if done { intern!(py, "after") } else { intern!(py, "before") };
        consumed.getattr(name).map(Some)
    }

    /// Adds the records of a chunk; returns false if there is no room, or Python must go on.
    fn add<'py>(
        &self,
        next: &Next<'py>,
        queue: &Bound<'py, ChunkQueue>,
        open: &Bound<'py, PyAny>,
        made: &Collected<'py>,
        room: &mut Room,
    ) -> PyResult<bool> {
        let py = next.chunk.py();
        let opened = self.open(next, queue, open)?;
        let mut reader = next.reader.borrow_mut();
        let before = reader.taken_bytes;
        let Ok(records) = reader.take(py, room.records, usize::try_from(room.bytes).ok()) else {
            return Ok(false); // the reader has not moved, and Python meets the error again
        };
        let rows = records.fresh_rows(py)?;
        let taken = opened.getattr(intern!(py, "taken"))?;
        taken.cast::<PyList>()?.append(Bound::new(py, records)?)?;
        if !room.add(rows.len(), (reader.taken_bytes - before) as i64) {
            return Ok(false);
        }
        let (offset, epoch) = (reader.next_offset, reader.leader_epoch);
        let (finished, size) = (reader.exhausted, reader.size_bytes() + CHUNK_BYTES);
        drop(reader);
        recount(next, queue, if finished { 0 } else { size as i64 })?;
        if finished {
            opened.setattr(intern!(py, "released"), true)?;
        }
        let at = bare(self.position.bind(py))?;
        at.setattr(intern!(py, "offset"), offset)?;
        at.setattr(intern!(py, "leader_epoch"), epoch)?;
        let consumed = if rows.is_empty() {
            let consumed = bare(self.consumed.bind(py))?;
            consumed.setattr(intern!(py, "position"), &at)?;
            consumed
        } else {
            let handed = bare(self.handed.bind(py))?;
            handed.setattr(intern!(py, "before"), &next.begin)?;
            handed.setattr(intern!(py, "after"), &at)?;
            handed.setattr(intern!(py, "publication"), &made.publication)?;
            made.batch.set_item(&next.tp, Bound::new(py, Records::of(&rows))?)?;
            if finished {
                made.finished.append((&next.state, &handed, &opened))?;
            }
            handed
        };
        consumed.setattr(intern!(py, "base"), &next.base)?;
        next.state.setattr(intern!(py, "consumed"), consumed)?;
        if next.begin.getattr(intern!(py, "offset"))?.extract::<i64>()? != offset {
            made.moved.append(&next.state)?;
            let kind = self.offset.bind(py);
            let new = PyTuple::type_object(py).getattr(intern!(py, "__new__"))?;
            made.next_offsets.set_item(&next.tp, new.call1((kind, (offset, "", epoch)))?)?;
        }
        Ok(true)
    }

    /// Takes the chunk out of the queue; it is kept before it is removed.
    fn open<'py>(
        &self,
        next: &Next<'py>,
        queue: &Bound<'py, ChunkQueue>,
        open: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = next.chunk.py();
        let opened = bare(self.opened.bind(py))?;
        opened.setattr(intern!(py, "chunk"), &next.chunk)?;
        opened.setattr(intern!(py, "reader"), &next.reader)?;
        opened.setattr(intern!(py, "taken"), PyList::empty(py))?;
        opened.setattr(intern!(py, "released"), false)?;
        opened.setattr(intern!(py, "reading"), false)?;
        opened.setattr(intern!(py, "_start"), next.reader.borrow().next_offset)?;
        open.set_item(&next.state, self.deque.bind(py).call1(((&opened,),))?)?;
        queue.get().take(py)?;
        Ok(opened)
    }
}

/// Whether nothing but new chunks is to be looked at.
fn is_usual(
    collector: &Bound<'_, PyAny>,
    subscription: &Bound<'_, PyAny>,
    buffer: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let py = collector.py();
    let is = |name| collector.getattr(name)?.is_truthy();
    let count = subscription.getattr(intern!(py, "changes"))?.getattr(intern!(py, "count"))?;
    Ok(!is(intern!(py, "busy"))?
        && collector.getattr(intern!(py, "_counting"))?.is_none()
        && (is(intern!(py, "raw"))? || !is(intern!(py, "deserializing"))?)
        && !buffer.getattr(intern!(py, "starved"))?.is_truthy()?
        && count.eq(subscription.getattr(intern!(py, "told_at"))?)?)
}

/// Drops the chunks that the last collection has returned; returns whether no other one is open.
fn drop_finished(collector: &Bound<'_, PyAny>, open: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = collector.py();
    if open.len()? == 0 {
        return Ok(true);
    }
    let publication = collector.getattr(intern!(py, "publication"))?;
    if !publication.getattr(intern!(py, "done"))?.is_truthy()? {
        return Ok(false);
    }
    let finished = collector.getattr(intern!(py, "_finished"))?;
    for each in finished.cast::<PyList>()? {
        let (state, handed, last): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
            each.extract()?;
        let chunks = open.call_method1(intern!(py, "get"), (&state,))?;
        // Invariant: nothing was added; see `FetchCollector._begin`.
        if state.getattr(intern!(py, "consumed"))?.is(&handed)
            && chunks.is_truthy()?
            && chunks.get_item(-1)?.is(&last)
        {
            open.del_item(&state)?;
        }
    }
    Ok(open.len()? == 0)
}

/// Sets the counted size of a chunk, as `FetchBuffer.count` does; 0 releases it.
fn recount(next: &Next<'_>, queue: &Bound<'_, ChunkQueue>, size: i64) -> PyResult<()> {
    let py = next.chunk.py();
    let counted: i64 = next.chunk.getattr(intern!(py, "counted_bytes"))?.extract()?;
    // Invariant: the partition first; a standing fetch that waits for room checks both.
    let progress = next.state.cast::<FetchProgress>()?;
    progress.get().0.released_bytes.fetch_add(counted - size, SeqCst);
    queue.get().release(counted - size);
    next.chunk.setattr(intern!(py, "counted_bytes"), size)
}
