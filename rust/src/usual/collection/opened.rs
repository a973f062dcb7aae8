//! Chunks that are open: those that a call has cut, and what came behind them.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::records::RecordReader;
use crate::slots::bare;
use crate::usual::collection::filling::{Filling, Part, take};
use crate::usual::collection::{Collected, Source};

impl<'py> Source<'_, 'py> {
    /// Goes on with the chunks that are open, the partitions in turn, as `collect` of Python;
    /// returns false if Python must go on.
    pub(super) fn fill_from_open(
        &self,
        made: &mut Collected<'py>,
        filling: &mut Filling<'py>,
    ) -> PyResult<bool> {
        self.open_queue()?;
        let mut usual = true;
        for state in self.open.as_any().try_iter()? {
            if !usual || filling.room.records == 0 {
                break;
            }
            usual = match self.next_open(state?)? {
                Some((chunks, part)) => self.read_open(&chunks, part, filling)?,
                None => false,
            };
        }
        let finished = self.of.collector._finished.get(&self.collector)?.cast_into::<PyList>()?;
        for part in &mut filling.parts {
            let consumed = self.of.add(part, made)?;
            if let Some(last) = part.last.as_ref().filter(|_| part.has_rows()) {
                finished.append((&part.state, consumed, last))?;
            }
        }
        self.serve_last(&filling.parts)?;
        Ok(usual)
    }

    /// Moves partitions to the end, once their records were added.
    pub(super) fn serve_last(&self, parts: &[Part<'py>]) -> PyResult<()> {
        if self.open.len() > 1 {
            for part in parts.iter().filter(|part| part.has_rows()) {
                let name = intern!(self.collector.py(), "_serve_last");
                self.collector.call_method1(name, (&part.state,))?;
            }
        }
        Ok(())
    }

    /// Opens all chunks of the queue.
    pub(super) fn open_queue(&self) -> PyResult<()> {
        let (queue, py) = (self.queue.get(), self.collector.py());
        while let Some(chunk) = queue.first(py)? {
            let chunk = chunk.into_bound(py);
            let chunks = self.chunks_of(&queue.chunk.partition.get(&chunk)?)?;
            // Invariant: it is kept before it is removed. Python may have been interrupted between.
            let last = chunks.iter().next_back();
            if !last.is_some_and(|last| self.of.opened.chunk.is(&last, &chunk).unwrap_or(false)) {
                chunks.append(self.opened(chunk)?)?;
            }
            queue.drop_first();
        }
        Ok(())
    }

    /// The open chunks of a partition.
    pub(super) fn chunks_of(&self, state: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        if let Some(chunks) = self.open.get_item(state)? {
            return Ok(chunks.cast_into()?);
        }
        let chunks = PyList::empty(self.collector.py());
        self.open.as_any().set_item(state, &chunks)?; // by the method of an `OrderedDict`
        Ok(chunks)
    }

    /// The `OpenedChunk` of a chunk.
    pub(super) fn opened(&self, chunk: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (slots, py) = (&self.of.opened, self.collector.py());
        let reader = self.queue.get().chunk.reader.get(&chunk)?;
        let opened = bare(slots.kind.bind(py))?;
        if reader.is_none() {
            slots._start.set(&opened, 0)?;
        } else {
            slots._start.set(&opened, reader.getattr(intern!(py, "next_offset"))?)?;
        }
        slots.reader.set(&opened, reader)?;
        slots.chunk.set(&opened, chunk)?;
        slots.taken.set(&opened, PyList::empty(py))?;
        slots.released.set(&opened, false)?;
        slots.reading.set(&opened, false)?;
        Ok(opened)
    }

    /// The open chunks of a partition that are left, and where to read; None if Python must look.
    fn next_open(
        &self,
        state: Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyList>, Part<'py>)>> {
        let slots = &self.of.opened;
        let chunks = self.chunks_of(&state)?;
        let Some(first) = chunks.iter().next() else { return Ok(None) };
        let base = self.queue.get().chunk.base.get(&slots.chunk.get(&first)?)?;
        let Some(begin) = self.place(&state, &base)? else { return Ok(None) };
        let offset = self.of.position.offset.int(&begin)?;
        while let Some(first) = chunks.iter().next()
            && slots.released.is_true(&first)?
        {
            let reader = slots.reader.get(&first)?;
            let read = reader.cast::<RecordReader>().is_ok_and(|reader| {
                let reader = reader.borrow();
                reader.exhausted && reader.next_offset <= offset
            });
            if !read {
                return Ok(None);
            }
            chunks.del_item(0)?;
        }
        let part = Part::of(state, base, begin, offset);
        Ok(Some((chunks, part)))
    }

    /// Reads the records of a partition; returns false if Python must go on.
    fn read_open(
        &self,
        chunks: &Bound<'py, PyList>,
        mut part: Part<'py>,
        filling: &mut Filling<'py>,
    ) -> PyResult<bool> {
        let (slots, py) = (&self.of.opened, self.collector.py());
        let (mut usual, mut read, mut whole) = (true, 0, 0);
        while usual
            && filling.room.records > 0
            && let Ok(opened) = chunks.get_item(read)
        {
            usual = false; // unless this chunk is read
            let Some((chunk, found)) = self.readable(&opened, &part)? else { break };
            let mut reader = found.borrow_mut();
            let before = reader.taken_bytes;
            slots.reading.set(&opened, true)?;
            let Some(records) = take(py, &mut reader, &filling.room)? else {
                slots.reading.set(&opened, false)?;
                break;
            };
            let rows = records.fresh_rows(py)?;
            slots.taken.set(&opened, PyList::new(py, [Bound::new(py, records)?])?)?;
            slots.reading.set(&opened, false)?;
            if !filling.room.add(rows.len(), (reader.taken_bytes - before) as i64) {
                usual = true;
                break;
            }
            drop(reader);
            let first = filling.parts.is_empty() && read == 0;
            let Some(values) = self.values(&rows, first)? else { break };
            let reader = found.borrow();
            let left = values.left(&reader);
            usual = true;
            part.add(values, &reader);
            read += 1;
            self.recount(&part.state, &chunk, left)?;
            filling.note(left);
            if left == 0 {
                slots.released.set(&opened, true)?;
                whole += 1;
            }
            if whole == chunks.len() {
                part.last = Some(opened);
            }
        }
        if read > 0 {
            filling.parts.push(part);
        }
        Ok(usual)
    }

    /// The chunk and the reader of an open chunk that can be read now, and that nothing has been
    /// taken of since the position.
    #[allow(clippy::type_complexity)] // both parts of one chunk
    fn readable(
        &self,
        opened: &Bound<'py, PyAny>,
        part: &Part<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, RecordReader>)>> {
        let (slots, chunks) = (&self.of.opened, &self.queue.get().chunk);
        let chunk = slots.chunk.get(opened)?;
        let Ok(reader) = slots.reader.get(opened)?.cast_into::<RecordReader>() else {
            return Ok(None);
        };
        let is_new = part.rows.is_empty() && {
            let offset = self.of.position.offset.int(&part.begin)?;
            reader.borrow().next_offset <= offset
        };
        let readable = !slots.reading.is_true(opened)?
            && !slots.released.is_true(opened)?
            && (is_new || slots.taken.get(opened)?.len()? == 0)
            && chunks.error.is_none(&chunk)?
            && chunks.base.is(&chunk, &part.base)?;
        Ok(readable.then_some((chunk, reader)))
    }

    /// Counts the new size of a chunk; 0 releases it.
    fn recount(
        &self,
        state: &Bound<'py, PyAny>,
        chunk: &Bound<'py, PyAny>,
        size: i64,
    ) -> PyResult<()> {
        let (chunks, size_now) = (&self.queue.get().chunk, size.into_pyobject(state.py())?);
        let freed = chunks.counted_bytes.int(chunk)? - size;
        self.release(state, freed)?;
        chunks.counted_bytes.set(chunk, size_now)
    }

    /// Drops the chunks that the last collection has returned; returns false if it was interrupted,
    /// and chunks are open.
    pub fn drop_returned(&self) -> PyResult<bool> {
        self.open_taken()?;
        if self.open.is_empty() {
            return Ok(true);
        }
        if !self.is_published()? {
            return Ok(false);
        }
        // What was read to its end.
        let finished = self.of.collector._finished.get(&self.collector)?;
        for each in finished.cast::<PyList>()? {
            let (state, handed, last): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
                each.extract()?;
            // Invariant: nothing was added; see `FetchCollector._begin`.
            if self.of.partition.consumed.is(&state, &handed)?
                && let Some(chunks) = self.open.get_item(&state)?
                && chunks.cast::<PyList>()?.iter().next_back().is_some_and(|chunk| chunk.is(&last))
            {
                self.open.as_any().del_item(&state)?;
            }
        }
        self.of.collector._finished.set(&self.collector, PyList::empty(self.collector.py()))?;
        Ok(true)
    }

    /// Whether chunks are open, and the last collection has read none of them to its end.
    pub fn is_inside_chunk(&self) -> PyResult<bool> {
        let finished = self.of.collector._finished.get(&self.collector)?;
        Ok(!self.open.is_empty() && finished.cast::<PyList>()?.is_empty())
    }
}
