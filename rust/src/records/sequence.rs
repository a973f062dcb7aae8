//! The records of one partition in one batch of `poll()`: a list that is created on demand, and the
//! iterator over it.

use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySlice, PyString, PyTuple, PyType};

use crate::records::maker::{Derived, Maker, Replaced, ReturnedRecord};
use crate::records::rows::{Cursor, Rows};
use crate::records::under_gil::UnderGil;

/// Records of one partition, with the behaviour of a list.
///
/// The records are rows until they are accessed. Length, iteration and access by index do not
/// create the list. Every other list operation creates the list, and operates on it.
#[pyclass(frozen, sequence, module = "tandem_kafka._native")]
pub struct Records {
    state: UnderGil<State>,
}

enum State {
    Lazy(Lazy),
    Filled(Py<PyList>),
}

struct Lazy {
    rows: Arc<Rows>,
    /// For each row what the user's deserializers have returned; None if there are none.
    replaced: Option<Vec<Replaced>>,
    /// None for ordinary records.
    derived: Option<Arc<Derived>>,
    /// Records that are still referenced, by index.
    kept: Vec<Option<Py<PyAny>>>,
    /// What the newest iterator has returned last; None before the first one.
    returned: Option<Arc<UnderGil<Returned>>>,
}

/// The last two records that an iterator has returned: a loop may still hold them.
#[derive(Default)]
struct Returned {
    last: Option<ReturnedRecord>,
    before: Option<ReturnedRecord>,
}

impl Returned {
    fn record(&self, py: Python<'_>, index: usize) -> Option<Py<PyAny>> {
        let mut found = [&self.last, &self.before].into_iter().flatten();
        found.find(|each| each.index == index).map(|each| each.record.clone_ref(py))
    }
}

/// The element at an index.
enum Entry {
    Made(Py<PyAny>),
    Row,
    Nothing,
}

static ADDED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

impl Records {
    pub fn new(rows: Rows) -> Self {
        Records::of(Arc::new(rows))
    }

    /// Records of rows that other records may have as well.
    pub fn of(rows: Arc<Rows>) -> Self {
        Records::lazy(rows, None, None)
    }

    /// Records with what deserializers have returned for each row.
    pub fn deserialized(rows: Arc<Rows>, replaced: Vec<Replaced>) -> Self {
        Records::lazy(rows, Some(replaced), None)
    }

    fn lazy(
        rows: Arc<Rows>,
        replaced: Option<Vec<Replaced>>,
        derived: Option<Arc<Derived>>,
    ) -> Self {
        let lazy = Lazy { rows, replaced, derived, kept: Vec::new(), returned: None };
        Records { state: UnderGil::new(State::Lazy(lazy)) }
    }

    /// Whether the rows alone are not the records.
    pub fn is_deserialized(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| match state {
            State::Lazy(lazy) => lazy.replaced.is_some(),
            State::Filled(_) => false,
        })
    }

    /// Creates the records of these rows.
    pub fn maker(&self, py: Python<'_>, rows: &Rows) -> PyResult<Maker> {
        let derived = self.state.with(py, |state| match state {
            State::Lazy(lazy) => lazy.derived.clone(),
            State::Filled(_) => None,
        });
        Maker::new(py, Arc::clone(&rows.owner), derived)
    }

    /// What replaces the fields of a row.
    pub fn replaced(&self, py: Python<'_>, index: usize) -> Replaced {
        self.state.with(py, |state| match state {
            State::Lazy(Lazy { replaced: Some(replaced), .. }) => {
                replaced.get(index).map(|each| each.clone_ref(py)).unwrap_or_default()
            }
            _ => Replaced::default(),
        })
    }

    /// The rows; None after the list was created.
    pub fn rows(&self, py: Python<'_>) -> Option<Arc<Rows>> {
        self.state.with(py, |state| match state {
            State::Lazy(lazy) => Some(Arc::clone(&lazy.rows)),
            State::Filled(_) => None,
        })
    }

    /// The rows, also of deserialized records.
    pub fn unused_rows(&self, py: Python<'_>) -> PyResult<Arc<Rows>> {
        let used = || PyValueError::new_err("these records were already converted to a list");
        self.rows(py).ok_or_else(used)
    }

    /// Takes the rows of records that were never returned to the user.
    pub fn fresh_rows(&self, py: Python<'_>) -> PyResult<Arc<Rows>> {
        if self.is_deserialized(py) {
            return Err(PyValueError::new_err("these records were already deserialized"));
        }
        self.unused_rows(py)
    }

    /// Where a new iterator keeps what it returns.
    ///
    /// Two iterators at a time return the same records: the second one creates the list.
    fn begin_iteration(&self, py: Python<'_>) -> PyResult<Arc<UnderGil<Returned>>> {
        let other_iterates = self.state.with(py, |state| match state {
            State::Lazy(Lazy { returned: Some(returned), .. }) => Arc::strong_count(returned) > 1,
            _ => false,
        });
        if other_iterates {
            self.list(py)?;
        }
        let returned = Arc::new(UnderGil::new(Returned::default()));
        // Dropped at the end: with it, the records of an older iterator.
        let _before = self.state.with(py, |state| match state {
            State::Lazy(lazy) => lazy.returned.replace(Arc::clone(&returned)),
            State::Filled(_) => None,
        });
        Ok(returned)
    }

    fn made(&self, py: Python<'_>) -> Option<Py<PyList>> {
        self.state.with(py, |state| match state {
            State::Lazy(_) => None,
            State::Filled(list) => Some(list.clone_ref(py)),
        })
    }

    /// The element at an index: an existing record or a row.
    fn entry(&self, py: Python<'_>, index: usize) -> PyResult<Entry> {
        let found = self.state.with(py, |state| match state {
            State::Lazy(lazy) if index >= lazy.rows.len() => Ok(Entry::Nothing),
            State::Lazy(lazy) => Ok(match lazy.kept.get(index) {
                Some(Some(record)) => Entry::Made(record.clone_ref(py)),
                _ => lazy
                    .returned
                    .as_ref()
                    .and_then(|returned| returned.with(py, |returned| returned.record(py, index)))
                    .map_or(Entry::Row, Entry::Made),
            }),
            State::Filled(list) => Err(list.clone_ref(py)),
        });
        match found {
            Ok(entry) => Ok(entry),
            Err(list) if index >= list.bind(py).len() => Ok(Entry::Nothing),
            Err(list) => Ok(Entry::Made(list.bind(py).get_item(index)?.unbind())),
        }
    }

    /// Remembers a referenced record, so that later accesses return the same object. One that is
    /// remembered already stays.
    pub fn keep(&self, py: Python<'_>, index: usize, record: Py<PyAny>) {
        let superfluous = self.state.with(py, |state| match state {
            State::Lazy(lazy) => {
                if lazy.kept.is_empty() {
                    lazy.kept.resize_with(lazy.rows.len(), || None);
                }
                match lazy.kept.get_mut(index) {
                    Some(place @ None) => place.replace(record),
                    _ => Some(record),
                }
            }
            State::Filled(_) => Some(record),
        });
        // Dropped here: a header that the user has added may have a destructor, which runs any code.
        drop(superfluous);
    }

    /// The list itself.
    pub fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let Some(rows) = self.rows(py) else {
            return self.made(py).map(|list| list.into_bound(py)).ok_or_else(|| {
                PyValueError::new_err("there are neither rows nor a list") // unreachable
            });
        };
        let mut maker = self.maker(py, &rows)?;
        let mut records = Vec::with_capacity(rows.len());
        for piece in &rows.pieces {
            for row in piece.start..piece.stop {
                let index = records.len();
                records.push(match self.entry(py, index)? {
                    Entry::Made(record) => record,
                    _ => maker.make(py, &piece.columns, row, self.replaced(py, index))?,
                });
            }
        }
        let list = PyList::new(py, records)?;
        let filled = State::Filled(list.clone().unbind());
        let before = self.state.with(py, |state| match state {
            State::Filled(other) => Err(other.clone_ref(py)), // by code that ran while records were created
            State::Lazy(_) => Ok(std::mem::replace(state, filled)),
        });
        Ok(before.err().map_or(list, |other| other.into_bound(py)))
    }

    fn at<'py>(&self, py: Python<'py>, given: isize) -> PyResult<Bound<'py, PyAny>> {
        let length = self.__len__(py);
        let at = if given < 0 { given + length as isize } else { given };
        let out_of_range = || PyIndexError::new_err("list index out of range");
        let index = usize::try_from(at).map_err(|_| out_of_range())?;
        match (self.entry(py, index)?, self.rows(py)) {
            (Entry::Made(record), _) => Ok(record.into_bound(py)),
            (Entry::Row, Some(rows)) => {
                let Some((piece, row)) = rows.find(index) else { return Err(out_of_range()) };
                let mut maker = self.maker(py, &rows)?;
                let replaced = self.replaced(py, index);
                let record = maker.make(py, &rows.pieces[piece].columns, row, replaced)?;
                self.keep(py, index, record.clone_ref(py));
                Ok(record.into_bound(py))
            }
            _ => Err(out_of_range()),
        }
    }
}

/// Returns the list of records, or any other argument unchanged.
fn as_plain<'py>(other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match other.cast::<Records>() {
        Ok(records) => Ok(records.get().list(other.py())?.into_any()),
        Err(_) => Ok(other.clone()),
    }
}

#[pymethods]
impl Records {
    // --- within this package -----------------------------------------------------------------

    /// Concatenates several sequences of one partition.
    #[staticmethod]
    fn join(py: Python<'_>, parts: Vec<PyRef<'_, Records>>) -> PyResult<Records> {
        let Some(first) = parts.first() else {
            return Err(PyValueError::new_err("there are no sequences to join"));
        };
        let deserialized = first.is_deserialized(py);
        let mut whole = Rows::empty(Arc::clone(&first.unused_rows(py)?.owner));
        let mut replaced = Vec::new();
        for part in &parts {
            let rows = part.unused_rows(py)?;
            if deserialized {
                replaced.extend((0..rows.len()).map(|index| part.replaced(py, index)));
            }
            rows.pieces.iter().for_each(|piece| whole.push(piece.clone()));
        }
        Ok(Records::lazy(Arc::new(whole), deserialized.then_some(replaced), None))
    }

    /// The records from `start` up to `stop`, as rows.
    fn part(&self, py: Python<'_>, start: usize, stop: usize) -> PyResult<Records> {
        let rows = self.fresh_rows(py)?;
        let stop = stop.min(rows.len());
        Ok(Records::new(rows.part(start.min(stop), stop).compacted()))
    }

    /// The records from `start` up to `stop`, which no list was created of, as instances of a
    /// subclass of `ConsumerRecord` with the attribute `_origin`.
    fn derived(
        &self,
        py: Python<'_>,
        start: usize,
        stop: usize,
        class: Py<PyType>,
        origin: Py<PyAny>,
    ) -> PyResult<Records> {
        let rows = self.unused_rows(py)?;
        let stop = stop.min(rows.len());
        let replaced = self
            .is_deserialized(py)
            .then(|| (start..stop).map(|index| self.replaced(py, index)).collect());
        let part = rows.part(start.min(stop), stop).compacted();
        Ok(Records::lazy(Arc::new(part), replaced, Some(Arc::new(Derived { class, origin }))))
    }

    /// The number of records before an offset.
    fn before(&self, py: Python<'_>, offset: i64) -> PyResult<usize> {
        Ok(self.fresh_rows(py)?.before(offset))
    }

    /// Offset and leader epoch of the record at an index.
    fn place_of(&self, py: Python<'_>, index: usize) -> PyResult<(i64, i32)> {
        let out_of_range = || PyIndexError::new_err("there is no such record");
        self.fresh_rows(py)?.place_of(index).ok_or_else(out_of_range)
    }

    // --- a list ------------------------------------------------------------------------------

    /// `type(records)(iterable)`, as `dataclasses.asdict` calls it, makes a list.
    #[new]
    #[pyo3(signature = (iterable = None, /))]
    fn create<'py>(
        py: Python<'py>,
        iterable: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<PyList>().call1(PyTuple::new(py, iterable)?)
    }

    /// Makes `isinstance(records, list)` true. The real type must not be a list, whose memory C
    /// code reads directly. It checks the real type, and uses the sequence protocol for any other.
    #[getter]
    fn __class__<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        py.get_type::<PyList>()
    }

    pub fn __len__(&self, py: Python<'_>) -> usize {
        match (self.rows(py), self.made(py)) {
            (Some(rows), _) => rows.len(),
            (None, list) => list.map_or(0, |list| list.bind(py).len()),
        }
    }

    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<RecordIterator> {
        RecordIterator::new(slf)
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        if !index.is_instance_of::<PySlice>()
            && let Ok(given) = index.extract::<isize>()
        {
            return self.at(py, given);
        }
        self.list(py)?.as_any().get_item(index)
    }

    fn __setitem__(&self, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.list(index.py())?.as_any().set_item(index, value)
    }

    fn __delitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<()> {
        self.list(index.py())?.as_any().del_item(index)
    }

    fn __contains__(&self, record: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.list(record.py())?.as_any().contains(record)
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.list(py)?.call_method0(intern!(py, "__reversed__"))
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let other = as_plain(other)?;
        if !other.is_instance_of::<PyList>() {
            return Ok(py.NotImplemented().into_bound(py));
        }
        self.list(py)?.as_any().rich_compare(other, op)
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let other = as_plain(other)?;
        if !other.is_instance_of::<PyList>() {
            return Ok(py.NotImplemented().into_bound(py));
        }
        self.list(py)?.as_any().add(other)
    }

    /// `list + records`. Python also calls it for `list += records`, which must extend the list.
    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        if !other.is_instance_of::<PyList>() {
            return Ok(py.NotImplemented().into_bound(py));
        }
        let added = ADDED.import(py, "tandem_kafka.records.adding", "added")?;
        added.call1((other, self.list(py)?))
    }

    fn __iadd__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        self.extend(other)
    }

    /// A list knows only itself: it would iterate over these records for as long as it grows.
    fn extend(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = other.py();
        self.list(py)?.call_method1(intern!(py, "extend"), (as_plain(other)?,)).map(|_| ())
    }

    fn __mul__<'py>(&self, count: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.list(count.py())?.as_any().mul(count)
    }

    fn __rmul__<'py>(&self, count: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.__mul__(count)
    }

    fn __imul__(&self, count: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = count.py();
        self.list(py)?.call_method1(intern!(py, "__imul__"), (count,)).map(|_| ())
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.list(py)?.as_any().repr()
    }

    /// Copies and pickles are lists.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Py<PyList>,))> {
        Ok((py.get_type::<PyList>(), (self.list(py)?.unbind(),)))
    }

    fn __copy__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.list(py)?.call_method0(intern!(py, "copy"))
    }

    fn __deepcopy__<'py>(&self, memo: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let py = memo.py();
        py.import(intern!(py, "copy"))?.call_method1("deepcopy", (self.list(py)?, memo))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.state.for_traversal() {
            State::Lazy(lazy) => {
                if let Some(derived) = &lazy.derived {
                    visit.call(&derived.origin)?;
                }
                let replaced = lazy.replaced.iter().flatten();
                replaced
                    .flat_map(|each| [&each.key, &each.value, &each.headers])
                    .chain(&lazy.kept)
                    .flatten()
                    .try_for_each(|each| visit.call(each))
            }
            State::Filled(list) => visit.call(list),
        }
    }

    /// The methods of a list: `append`, `sort`, `index` and the others.
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        if !py.get_type::<PyList>().hasattr(name)? {
            let text = format!("'list' object has no attribute '{name}'");
            return Err(PyAttributeError::new_err(text));
        }
        self.list(py)?.getattr(name)
    }

    fn __dir__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let list = PyTuple::empty(py).to_list();
        py.import(intern!(py, "builtins"))?.call_method1("dir", (list,))
    }
}

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
    returned: Arc<UnderGil<Returned>>,
}

impl RecordIterator {
    pub fn new(records: &Bound<'_, Records>) -> PyResult<Self> {
        let py = records.py();
        let returned = records.get().begin_iteration(py)?;
        let rows = match records.get().rows(py) {
            Some(rows) => {
                let maker = records.get().maker(py, &rows)?;
                Some((rows, maker))
            }
            None => None,
        };
        Ok(RecordIterator {
            records: Some(records.clone().unbind()),
            rows,
            cursor: Cursor::default(),
            index: 0,
            returned,
        })
    }

    /// Creates the record of a row.
    fn make(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some((rows, maker)) = &mut self.rows else { return Ok(None) };
        let Some((columns, row)) = self.cursor.peek(rows) else { return Ok(None) };
        let Some(records) = &self.records else { return Ok(None) };
        let replaced = records.get().replaced(py, self.index);
        let oldest = self
            .returned
            .with(py, |returned| std::mem::replace(&mut returned.before, returned.last.take()));
        let (given, held) = maker.next_record(py, oldest, columns, row, self.index, replaced)?;
        let record = given.record.clone_ref(py);
        self.returned.with(py, |returned| returned.last = Some(given));
        if let Some(held) = held {
            records.get().keep(py, held.index, held.record);
        }
        Ok(Some(record))
    }

    /// Ends the iteration.
    fn finish(&mut self, py: Python<'_>) {
        let given =
            self.returned.with(py, |returned| [returned.before.take(), returned.last.take()]);
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
        // SAFETY: Python objects are dropped under the GIL.
        self.finish(unsafe { Python::assume_attached() });
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

    /// Copies and pickles are iterators over a list.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let iter = py.import(intern!(py, "builtins"))?.getattr(intern!(py, "iter"))?;
        match &self.records {
            Some(records) => (iter, (records.get().list(py)?,), self.index).into_pyobject(py),
            None => (iter, (PyList::empty(py),)).into_pyobject(py),
        }
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        let length = self.records.as_ref().map_or(0, |records| records.get().__len__(py));
        length.saturating_sub(self.index)
    }
}
