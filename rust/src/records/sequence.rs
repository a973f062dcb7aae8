//! A sequence of records of one partition, made when they are looked at.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString, PyTuple};

use crate::batches::{Columns, MOST_KEPT, Owner};
use crate::records::handed::Handed;
use crate::records::record::Record;

/// Rows of one batch.
#[derive(Clone)]
pub struct Piece {
    pub columns: Arc<Columns>,
    pub start: usize,
    pub stop: usize,
}

impl Piece {
    fn len(&self) -> usize {
        self.stop - self.start
    }

    /// Memory that these rows need.
    fn needed_bytes(&self) -> usize {
        self.columns.needed_bytes(self.start, self.stop)
    }

    /// The same rows, taken out of a batch that is large beside them.
    fn compacted(self) -> Self {
        if self.needed_bytes() * MOST_KEPT >= self.columns.kept_bytes() {
            return self;
        }
        let columns = Arc::new(self.columns.copied(self.start, self.stop));
        Piece { columns, start: 0, stop: self.len() }
    }
}

/// So much is copied at once, at most, so that a few records do not keep large batches.
const COPIED_BYTES: usize = 32 * 1024;

/// Records of one partition; compares equal to a list of the same.
#[pyclass(frozen, sequence, module = "tandem_kafka._native")]
pub struct Records {
    owner: Arc<Owner>,
    pieces: Vec<Piece>,
    length: usize,
    handed: Mutex<Handed>,
}

impl Records {
    pub fn empty(owner: Arc<Owner>) -> Self {
        Records { owner, pieces: Vec::new(), length: 0, handed: Mutex::default() }
    }

    /// Appends rows, which are not empty.
    pub fn push(&mut self, piece: Piece) {
        self.length += piece.len();
        self.pieces.push(piece);
    }

    /// The same records, with batches let go of that are large beside all of them.
    pub fn compacted(mut self) -> Self {
        if self.pieces.iter().map(Piece::needed_bytes).sum::<usize>() <= COPIED_BYTES {
            self.pieces = self.pieces.into_iter().map(Piece::compacted).collect();
        }
        self
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The batch and the row of a record.
    fn find(&self, mut index: usize) -> Option<(&Arc<Columns>, usize)> {
        for piece in &self.pieces {
            if index < piece.len() {
                return Some((&piece.columns, piece.start + index));
            }
            index -= piece.len();
        }
        None
    }

    /// The records from `start` up to `stop`.
    fn part(&self, mut start: usize, mut stop: usize) -> Records {
        let mut part = Records::empty(Arc::clone(&self.owner));
        for piece in &self.pieces {
            let (from, to) = (start.min(piece.len()), stop.min(piece.len()));
            if from < to {
                let columns = Arc::clone(&piece.columns);
                part.push(Piece { columns, start: piece.start + from, stop: piece.start + to });
            }
            start -= from;
            stop -= to;
        }
        part
    }

    fn slice<'py>(&self, slice: &Bound<'py, PySlice>) -> PyResult<Bound<'py, PyAny>> {
        let py = slice.py();
        let chosen = slice.indices(self.length as isize)?;
        if chosen.step == 1 {
            let stop = chosen.stop.max(chosen.start);
            let part = self.part(chosen.start as usize, stop as usize);
            return Ok(Bound::new(py, part.compacted())?.into_any());
        }
        let mut part = Records::empty(Arc::clone(&self.owner));
        let mut at = chosen.start;
        for _ in 0..chosen.slicelength {
            if let Some((columns, row)) = self.find(at as usize) {
                part.push(Piece { columns: Arc::clone(columns), start: row, stop: row + 1 });
            }
            at += chosen.step;
        }
        Ok(Bound::new(py, part.compacted())?.into_any())
    }
}

#[pymethods]
impl Records {
    /// The records of several sequences of one partition, one behind the other.
    #[staticmethod]
    fn join(parts: Vec<PyRef<'_, Records>>) -> PyResult<Records> {
        let Some(first) = parts.first() else {
            return Err(PyValueError::new_err("there is nothing to join"));
        };
        let mut whole = Records::empty(Arc::clone(&first.owner));
        for part in &parts {
            part.pieces.iter().for_each(|piece| whole.push(piece.clone()));
        }
        Ok(whole)
    }

    /// Name of the topic.
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.owner.topic.clone_ref(py)
    }

    /// Partition number.
    #[getter]
    fn partition(&self) -> i32 {
        self.owner.partition
    }

    fn __len__(&self) -> usize {
        self.length
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = index.cast::<PySlice>() {
            return self.slice(slice);
        }
        let Ok(given) = index.extract::<isize>() else {
            let kind = index.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "records are indexed by integers or slices, not {kind}"
            )));
        };
        let at = if given < 0 { given + self.length as isize } else { given };
        match usize::try_from(at).ok().and_then(|at| self.find(at)) {
            Some((columns, row)) => {
                let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(handed.hand_out(index.py(), columns, row)?.into_any())
            }
            None => Err(PyIndexError::new_err(format!(
                "index {given} is out of range: there are {} records",
                self.length
            ))),
        }
    }

    fn __iter__(&self) -> RecordIterator {
        let mut pieces = self.pieces.clone();
        pieces.reverse();
        RecordIterator {
            left: pieces,
            columns: None,
            row: 0,
            stop: 0,
            count: self.length,
            handed: Handed::default(),
        }
    }

    fn __eq__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let comparable = other.is_instance_of::<Records>()
            || other.is_instance_of::<PyList>()
            || other.is_instance_of::<PyTuple>();
        if !comparable {
            return Ok(py.NotImplemented());
        }
        let mut equal = slf.get().length == other.len()?;
        if equal {
            for (ours, theirs) in slf.try_iter()?.zip(other.try_iter()?) {
                equal = ours?.eq(theirs?)?;
                if !equal {
                    break;
                }
            }
        }
        Ok(equal.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    /// Return the index of the first record equal to `record`.
    #[pyo3(signature = (record, start = 0, stop = None))]
    fn index(
        slf: &Bound<'_, Self>,
        record: &Bound<'_, PyAny>,
        start: isize,
        stop: Option<isize>,
    ) -> PyResult<isize> {
        let py = slf.py();
        let within = PySlice::new(py, start, stop.unwrap_or(isize::MAX), 1);
        let bounds = within.indices(slf.get().length as isize)?;
        for at in bounds.start..bounds.stop {
            if slf.get_item(at)?.eq(record)? {
                return Ok(at);
            }
        }
        Err(PyValueError::new_err("the record is not in this sequence"))
    }

    /// Return how many records are equal to `record`.
    fn count(slf: &Bound<'_, Self>, record: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut found = 0;
        for each in slf.try_iter()? {
            found += usize::from(each?.eq(record)?);
        }
        Ok(found)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = format!("{}-{}", self.owner.topic.bind(py), self.owner.partition);
        match (self.pieces.first(), self.pieces.last()) {
            (Some(first), Some(last)) => format!(
                "<{} records of {name}, offsets {} to {}>",
                self.length,
                first.columns.offset(first.start),
                last.columns.offset(last.stop - 1),
            ),
            _ => format!("<no records of {name}>"),
        }
    }
}

/// Makes one record after the other.
#[pyclass(module = "tandem_kafka._native")]
pub struct RecordIterator {
    /// What has not begun yet, the next one last.
    left: Vec<Piece>,
    columns: Option<Arc<Columns>>,
    row: usize,
    stop: usize,
    count: usize,
    handed: Handed,
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, Record>>> {
        while self.row == self.stop {
            let Some(piece) = self.left.pop() else {
                self.columns = None;
                self.handed.finish(py);
                return Ok(None);
            };
            (self.row, self.stop) = (piece.start, piece.stop);
            self.columns = Some(piece.columns);
        }
        let Some(columns) = &self.columns else { return Ok(None) };
        let row = self.row;
        self.row += 1;
        self.count -= 1;
        self.handed.hand_out(py, columns, row).map(Some)
    }

    fn __length_hint__(&self) -> usize {
        self.count
    }
}
