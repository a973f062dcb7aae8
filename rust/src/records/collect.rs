//! The usual case of `FetchCollector.collect`, in one step.
//!
//! All chunks are new, and nothing else is to be told. Python leaves the same objects behind (`consumer/reading/fetch_collector.py`), so
//! that it may continue at any time.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use pyo3::PyTypeInfo;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::bare::bare;
use crate::records::reader::RecordReader;
use crate::records::rows::Rows;
use crate::records::sequence::Records;
use crate::standing::{CHUNK_BYTES, ChunkQueue, FetchProgress};

/// The classes of the objects that a collection makes.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct UsualCase {
    batch: Py<PyType>,
    no_starts: Py<PyAny>,
    opened: Py<PyType>,
    handed: Py<PyType>,
    consumed: Py<PyType>,
    position: Py<PyType>,
    publication: Py<PyType>,
    offset: Py<PyType>,
    fetching: Py<PyAny>,
}

/// What a collection takes chunks from.
struct Source<'py> {
    collector: Bound<'py, PyAny>,
    subscription: Bound<'py, PyAny>,
    buffer: Bound<'py, PyAny>,
    queue: Bound<'py, ChunkQueue>,
    open: Bound<'py, PyAny>,
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

/// What a collection has read of a partition.
struct Part<'py> {
    state: Bound<'py, PyAny>,
    tp: Bound<'py, PyAny>,
    base: Bound<'py, PyAny>,
    begin: Bound<'py, PyAny>,
    rows: Vec<Arc<Rows>>,
    /// The offset and the leader epoch of the position after them.
    at: (i64, i32),
    /// The last chunk if it was read to its end.
    last: Option<Bound<'py, PyAny>>,
    /// Whether a chunk was released.
    released: bool,
}

impl Part<'_> {
    fn has_rows(&self) -> bool {
        self.rows.iter().any(|rows| !rows.is_empty())
    }
}

#[pymethods]
impl UsualCase {
    #[new]
    #[allow(clippy::too_many_arguments)] // the classes that a collection makes objects of
    fn new(
        batch: Py<PyType>,
        no_starts: Py<PyAny>,
        opened: Py<PyType>,
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
        collector: Bound<'py, PyAny>,
        max_records: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = collector.py();
        let buffer = collector.getattr(intern!(py, "_buffer"))?;
        if let Ok(queue) = buffer.getattr(intern!(py, "queue"))?.cast_into::<ChunkQueue>() {
            let subscription = collector.getattr(intern!(py, "_subscription"))?;
            let open = collector.getattr(intern!(py, "_open"))?;
            let from = Source { collector: collector.clone(), subscription, buffer, queue, open };
            if from.is_usual()? && from.drop_finished()? {
                let made = self.begin(py)?;
                collector.setattr(intern!(py, "busy"), true)?;
                let collected = self.fill(&from, &made, max_records);
                collector.setattr(intern!(py, "busy"), false)?;
                if collected? {
                    return Ok(made.batch.into_any());
                }
            }
        }
        collector.call_method1(intern!(py, "collect"), (max_records,))
    }
}

impl UsualCase {
    fn begin<'py>(&self, py: Python<'py>) -> PyResult<Collected<'py>> {
        let kind = self.batch.bind(py);
        let batch = kind.call_method1(intern!(py, "__new__"), (kind,))?;
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
        from: &Source<'py>,
        made: &Collected<'py>,
        max_records: usize,
    ) -> PyResult<bool> {
        let (collector, py) = (&from.collector, from.collector.py());
        collector.setattr(intern!(py, "_finished"), &made.finished)?;
        collector.setattr(intern!(py, "moved"), &made.moved)?;
        collector.setattr(intern!(py, "publication"), &made.publication)?;
        let assigned = from.subscription.getattr(intern!(py, "assigned"))?;
        let bytes = collector.getattr(intern!(py, "max_bytes"))?.extract()?;
        let mut room = Room { records: max_records, bytes, empty: true };
        let (mut usual, mut parts) = (true, Vec::new());
        while usual
            && room.records > 0
            && let Some(chunk) = from.queue.get().first(py)?
        {
            usual = match self.look(chunk.into_bound(py), &assigned)? {
                Some(next) => self.read(next, from, &mut parts, &mut room)?,
                None => false,
            };
        }
        for part in &parts {
            self.add(part, made)?;
        }
        // Another thread may have found the buffer full while a batch was decoded.
        if parts.iter().any(|part| part.released) && from.starved()? {
            collector.getattr(intern!(py, "_wake_network"))?.call0()?;
        }
        if room.records == 0 && assigned.len()? > 1 && !from.queue.get().is_empty() {
            let states = parts.iter().filter(|part| part.has_rows()).map(|part| &part.state);
            let states = PyList::new(py, states.collect::<Vec<_>>())?;
            collector.call_method1(intern!(py, "_serve_others_first"), (states,))?;
        }
        Ok(usual || !made.moved.is_empty())
    }

    /// Returns the chunk with what is needed of it, unless Python must look at it.
    fn look<'py>(
        &self,
        chunk: Bound<'py, PyAny>,
        assigned: &Bound<'py, PyAny>,
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

    /// Reads the records of a chunk; returns false if there is no room, or Python must go on.
    fn read<'py>(
        &self,
        next: Next<'py>,
        from: &Source<'py>,
        parts: &mut Vec<Part<'py>>,
        room: &mut Room,
    ) -> PyResult<bool> {
        let py = next.chunk.py();
        let opened = self.open(&next, from)?;
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
        let at = (reader.next_offset, reader.leader_epoch);
        let (whole, size) = (reader.exhausted, reader.size_bytes() + CHUNK_BYTES);
        drop(reader);
        recount(&next, &from.queue, if whole { 0 } else { size as i64 })?;
        if whole {
            opened.setattr(intern!(py, "released"), true)?;
        } else {
            room.records = 0; // its next record does not fit, and precedes those of other chunks
        }
        let last = whole.then_some(opened);
        match parts.iter_mut().find(|part| part.state.is(&next.state)) {
            Some(part) => {
                part.rows.push(rows);
                (part.at, part.last, part.released) = (at, last, part.released || whole);
            }
            None => {
                let Next { state, tp, base, begin, .. } = next;
                let (rows, released) = (vec![rows], whole);
                parts.push(Part { state, tp, base, begin, rows, at, last, released });
            }
        }
        Ok(true)
    }

    /// Adds the records of a partition, and prepares its new position.
    fn add<'py>(&self, part: &Part<'py>, made: &Collected<'py>) -> PyResult<()> {
        let py = part.state.py();
        let (offset, epoch) = part.at;
        let at = bare(self.position.bind(py))?;
        at.setattr(intern!(py, "offset"), offset)?;
        at.setattr(intern!(py, "leader_epoch"), epoch)?;
        let consumed = if let Some(rows) = joined(&part.rows) {
            let handed = bare(self.handed.bind(py))?;
            handed.setattr(intern!(py, "before"), &part.begin)?;
            handed.setattr(intern!(py, "after"), &at)?;
            handed.setattr(intern!(py, "publication"), &made.publication)?;
            made.batch.set_item(&part.tp, Bound::new(py, Records::of(rows))?)?;
            if let Some(last) = &part.last {
                made.finished.append((&part.state, &handed, last))?;
            }
            handed
        } else {
            let consumed = bare(self.consumed.bind(py))?;
            consumed.setattr(intern!(py, "position"), &at)?;
            consumed
        };
        consumed.setattr(intern!(py, "base"), &part.base)?;
        part.state.setattr(intern!(py, "consumed"), consumed)?;
        if part.begin.getattr(intern!(py, "offset"))?.extract::<i64>()? != offset {
            made.moved.append(&part.state)?;
            let kind = self.offset.bind(py);
            let new = PyTuple::type_object(py).getattr(intern!(py, "__new__"))?;
            made.next_offsets.set_item(&part.tp, new.call1((kind, (offset, "", epoch)))?)?;
        }
        Ok(())
    }

    /// Takes the chunk out of the queue; it is kept before it is removed.
    fn open<'py>(&self, next: &Next<'py>, from: &Source<'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = next.chunk.py();
        let opened = bare(self.opened.bind(py))?;
        opened.setattr(intern!(py, "chunk"), &next.chunk)?;
        opened.setattr(intern!(py, "reader"), &next.reader)?;
        opened.setattr(intern!(py, "taken"), PyList::empty(py))?;
        opened.setattr(intern!(py, "released"), false)?;
        opened.setattr(intern!(py, "reading"), false)?;
        opened.setattr(intern!(py, "_start"), next.reader.borrow().next_offset)?;
        let chunks = from.open.call_method1(intern!(py, "get"), (&next.state,))?;
        match chunks.cast::<PyList>() {
            Ok(chunks) => chunks.append(&opened)?,
            Err(_) => from.open.set_item(&next.state, PyList::new(py, [&opened])?)?,
        }
        from.queue.get().drop_first();
        Ok(opened)
    }
}

impl Source<'_> {
    /// Whether nothing but new chunks is to be looked at.
    fn is_usual(&self) -> PyResult<bool> {
        let py = self.collector.py();
        let is = |name| self.collector.getattr(name)?.is_truthy();
        let changes = self.subscription.getattr(intern!(py, "changes"))?;
        Ok(!is(intern!(py, "busy"))?
            && self.collector.getattr(intern!(py, "_counting"))?.is_none()
            && (is(intern!(py, "raw"))? || !is(intern!(py, "deserializing"))?)
            && !self.starved()?
            && changes
                .getattr(intern!(py, "count"))?
                .eq(self.subscription.getattr(intern!(py, "told_at"))?)?)
    }

    fn starved(&self) -> PyResult<bool> {
        self.buffer.getattr(intern!(self.buffer.py(), "starved"))?.is_truthy()
    }

    /// Drops the chunks that the last collection has returned; returns whether no other one is open.
    fn drop_finished(&self) -> PyResult<bool> {
        let py = self.collector.py();
        if self.open.len()? == 0 {
            return Ok(true);
        }
        let publication = self.collector.getattr(intern!(py, "publication"))?;
        if !publication.getattr(intern!(py, "done"))?.is_truthy()? {
            return Ok(false);
        }
        let finished = self.collector.getattr(intern!(py, "_finished"))?;
        for each in finished.cast::<PyList>()? {
            let (state, handed, last): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
                each.extract()?;
            let chunks = self.open.call_method1(intern!(py, "get"), (&state,))?;
            // Invariant: nothing was added; see `FetchCollector._begin`.
            if state.getattr(intern!(py, "consumed"))?.is(&handed)
                && let Ok(chunks) = chunks.cast::<PyList>()
                && chunks.iter().next_back().is_some_and(|chunk| chunk.is(&last))
            {
                self.open.del_item(&state)?;
            }
        }
        Ok(self.open.len()? == 0)
    }
}

/// The rows of several chunks; None if there are no rows.
fn joined(parts: &[Arc<Rows>]) -> Option<Arc<Rows>> {
    let mut filled = parts.iter().filter(|rows| !rows.is_empty());
    let first = filled.next()?;
    let mut rest = filled.peekable();
    if rest.peek().is_none() {
        return Some(Arc::clone(first));
    }
    let mut whole = Rows::empty(Arc::clone(&first.owner));
    for rows in std::iter::once(first).chain(rest) {
        rows.pieces.iter().for_each(|piece| whole.push(piece.clone()));
    }
    Some(Arc::new(whole))
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
