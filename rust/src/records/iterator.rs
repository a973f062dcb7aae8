//! The iterator over the records of `poll()`.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::records::maker::{Maker, ReturnedRecord};
use crate::records::rows::{Cursor, Rows};
use crate::records::sequence::{Entry, Records};

/// Creates the records one by one.
///
/// A loop holds the last record in its variable while it requests the next one. If nothing
/// references the record before that, its object is reused. Otherwise it remains the record of its
/// index, as in a list.
#[pyclass(module = "tandem_kafka._native")]
pub struct RecordIterator {
    /// None after the last record.
    records: Option<Py<Records>>,
    rows: Option<(Arc<Rows>, Maker)>,
    cursor: Cursor,
    index: usize,
    last: Option<ReturnedRecord>,
    before: Option<ReturnedRecord>,
}

impl RecordIterator {
    pub fn new(records: &Bound<'_, Records>) -> PyResult<Self> {
        let py = records.py();
        let rows = match records.get().rows(py) {
            Some(rows) => {
                let maker = Maker::new(py, Arc::clone(&rows.owner))?;
                Some((rows, maker))
            }
            None => None,
        };
        Ok(RecordIterator {
            records: Some(records.clone().unbind()),
            rows,
            cursor: Cursor::default(),
            index: 0,
            last: None,
            before: None,
        })
    }

    /// Creates the record of a row.
    fn make(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some((rows, maker)) = &mut self.rows else { return Ok(None) };
        let Some((columns, row)) = self.cursor.peek(rows) else { return Ok(None) };
        let oldest = std::mem::replace(&mut self.before, self.last.take());
        let (given, held) = maker.next_record(py, oldest, columns, row, self.index)?;
        let record = given.record.clone_ref(py);
        self.last = Some(given);
        if let (Some(held), Some(records)) = (held, &self.records) {
            records.get().keep(py, held.index, held.record);
        }
        Ok(Some(record))
    }

    /// Ends the iteration.
    fn finish(&mut self, py: Python<'_>) {
        let given = [self.before.take(), self.last.take()];
        if let (Some((_, maker)), Some(records)) = (self.rows.take(), self.records.take()) {
            for given in given.into_iter().flatten() {
                if !maker.is_free(py, &given) {
                    records.get().keep(py, given.index, given.record);
                }
            }
        }
    }
}

impl Drop for RecordIterator {
    fn drop(&mut self) {
        if self.last.is_some() {
            // SAFETY: Python objects are dropped under the GIL.
            self.finish(unsafe { Python::assume_attached() });
        }
    }
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(records) = &self.records else { return Ok(None) };
        let found = match records.get().entry(py, self.index)? {
            Entry::Made(record) => Some(record),
            Entry::Row => self.make(py)?,
            Entry::Nothing => None,
        };
        if found.is_none() {
            self.finish(py);
            return Ok(None);
        }
        self.cursor.advance();
        self.index += 1;
        Ok(found)
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        let length = self.records.as_ref().map_or(0, |records| records.get().__len__(py));
        length.saturating_sub(self.index)
    }
}
