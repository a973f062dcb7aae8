//! Chunks that are read as they come out of the queue: they need no objects.

use std::collections::VecDeque;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::records::{RecordReader, Records};
use crate::standing::{Opened, Origin, Taken};
use crate::usual::collection::filling::{Filling, Part, take};
use crate::usual::collection::{Collected, Source};

/// A chunk that may be returned now.
struct Next<'py> {
    chunk: Opened,
    reader: Bound<'py, RecordReader>,
    /// The bytes that are counted.
    counted: i64,
    state: Bound<'py, PyAny>,
    base: Bound<'py, PyAny>,
    /// The position.
    begin: Bound<'py, PyAny>,
}

impl<'py> Source<'_, 'py> {
    /// Adds the chunks in the queue; returns false if Python must go on.
    pub(super) fn fill_from_queue(
        &self,
        made: &mut Collected<'py>,
        filling: &mut Filling<'py>,
    ) -> PyResult<bool> {
        let (py, queue) = (self.collector.py(), self.queue.get());
        let mut usual = true;
        while usual
            && filling.room.records > 0
            && let Some(opened) = queue.look(py)?
        {
            usual = match self.look(opened)? {
                Some(next) => self.read(next, filling)?,
                None => false,
            };
        }
        for part in &mut filling.parts {
            let consumed = self.of.add(part, made)?.unbind();
            queue.taken.with(py, |taken| {
                for each in taken.iter_mut().filter(|each| each.state.is(&part.state)) {
                    each.consumed = Some(consumed.clone_ref(py));
                }
            });
        }
        // What is left of the chunks that were taken comes before these.
        let others = filling.room.records == 0 && self.assigned()?.len() > 1 && !queue.is_empty();
        let is_left = |taken: &mut VecDeque<Taken>| taken.iter().any(|each| each.counted != 0);
        if !usual || others || queue.taken.with(py, is_left) {
            self.open_taken()?;
        }
        if others {
            self.open_queue()?;
            self.serve_last(&filling.parts)?;
        }
        Ok(usual)
    }

    /// Returns the chunk with what is needed of it, unless Python must look at it.
    fn look(&self, chunk: Opened) -> PyResult<Option<Next<'py>>> {
        let py = self.collector.py();
        let (state, fetched_from, reader, counted) = match &chunk {
            Opened::Begun { origin, reader, size } => {
                let Origin { state, base, .. } = &**origin;
                let of = |each: &Py<PyAny>| each.bind(py).clone();
                (of(state), of(base), reader.bind(py).clone(), *size)
            }
            Opened::Chunk(chunk) => {
                let (chunks, chunk) = (&self.queue.get().chunk, chunk.bind(py));
                let (state, base) = (chunks.partition.get(chunk)?, chunks.base.get(chunk)?);
                match chunks.reader.get(chunk)?.cast_into() {
                    Ok(reader) if chunks.error.is_none(chunk)? => {
                        (state, base, reader, chunks.counted_bytes.int(chunk)?)
                    }
                    _ => return Ok(None),
                }
            }
        };
        let begin = self.place(&state, &fetched_from)?;
        let base = fetched_from;
        Ok(begin.map(|begin| Next { chunk, reader, counted, state, base, begin }))
    }

    /// Reads the records of a chunk; returns false if there is no room, or Python must go on.
    fn read(&self, next: Next<'py>, filling: &mut Filling<'py>) -> PyResult<bool> {
        let Next { chunk, reader: found, counted, state, base, begin } = next;
        let (py, queue) = (state.py(), self.queue.get());
        let mut reader = found.borrow_mut();
        let (start, before) = (reader.next_offset, reader.taken_bytes);
        let Some(records) = take(py, &mut reader, &filling.room)? else { return Ok(false) };
        let rows = records.fresh_rows(py)?;
        let fits = filling.room.add(rows.len(), (reader.taken_bytes - before) as i64);
        drop(reader);
        // Invariant: it is kept before it is removed, and before a deserializer may be interrupted.
        queue.taken.with(py, |taken| {
            let (state, rows) = (state.clone().unbind(), Arc::clone(&rows));
            taken.push_back(Taken { chunk, state, start, rows, counted, consumed: None });
        });
        queue.drop_first();
        let values = if fits { self.values(&rows, filling.parts.is_empty())? } else { None };
        let Some(values) = values else {
            return Ok(false);
        };
        let reader = found.borrow();
        let left = values.left(&reader);
        queue.taken.with(py, |taken| {
            if let Some(last) = taken.back_mut() {
                last.counted = left;
            }
        });
        self.release(&state, counted - left)?;
        filling.note(left);
        let parts = &mut filling.parts;
        let known = parts.iter().position(|part| part.state.is(&state));
        let at = known.unwrap_or_else(|| {
            parts.push(Part::of(state, base, begin, start));
            parts.len() - 1
        });
        parts[at].add(values, &reader);
        Ok(true)
    }

    /// Opens the chunks that were taken, but for those whose records were returned.
    pub(super) fn open_taken(&self) -> PyResult<()> {
        let (queue, py) = (self.queue.get(), self.collector.py());
        let returned = self.is_published()?;
        while let Some(taken) = queue.taken.with(py, VecDeque::pop_front) {
            let consumed = self.of.partition.consumed.get(taken.state.bind(py))?;
            if !(returned && taken.consumed.as_ref().is_some_and(|made| made.is(&consumed)))
                && let Err(error) = self.open(&taken)
            {
                queue.taken.with(py, |all| all.push_front(taken));
                return Err(error);
            }
        }
        Ok(())
    }

    fn open(&self, taken: &Taken) -> PyResult<()> {
        let (slots, py) = (&self.of.opened, self.collector.py());
        let chunk = self.queue.get().chunk_of(py, &taken.chunk)?.into_bound(py);
        self.queue.get().chunk.counted_bytes.set(&chunk, taken.counted)?;
        let records = Bound::new(py, Records::of(Arc::clone(&taken.rows)))?;
        let opened = self.opened(chunk)?;
        slots.taken.set(&opened, PyList::new(py, [records])?)?;
        slots.released.set(&opened, taken.counted == 0)?;
        slots._start.set(&opened, taken.start)?;
        self.chunks_of(taken.state.bind(py))?.append(opened)
    }
}
