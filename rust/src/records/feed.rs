//! `for record in consumer`: returns records one by one, without running Python code.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::import_exception;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::records::deserialized::{Function, parts_of};
use crate::records::maker::{Maker, Replaced, ReturnedRecord};
use crate::records::rows::{Cursor, Rows};
use crate::records::sequence::Records;
use crate::records::under_gil::UnderGil;

import_exception!(tandem_kafka.errors, ConcurrentModificationError);

/// Records of one partition, and how many of them the loop has received.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Feed {
    source: Source,
    /// Writer: the application thread. The store moves the position.
    given: AtomicUsize,
    stopped: AtomicBool,
    /// None while a record is being created.
    row_source: UnderGil<Option<RowSource>>,
}

enum Source {
    Rows(Arc<Rows>),
    List(Py<PyList>),
}

/// Creates the next record from rows.
struct RowSource {
    maker: Maker,
    cursor: Cursor,
    /// Has what the user's deserializers have returned for each row, if they were called before.
    deserialized: Option<Py<Records>>,
    deserializers: Option<Deserializers>,
    last: Option<ReturnedRecord>,
    before: Option<ReturnedRecord>,
}

/// The user's deserializers; the flags say whether they receive topic and headers.
pub struct Deserializers {
    key: Option<(Py<PyAny>, bool)>,
    value: Option<(Py<PyAny>, bool)>,
    /// Returns the error to raise, given the origin ("key" or "value"), the exception, and the
    /// record as received.
    error_of: Py<PyAny>,
}

impl Feed {
    fn over(source: Source, row_source: Option<RowSource>) -> Self {
        Feed {
            source,
            given: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            row_source: UnderGil::new(row_source),
        }
    }

    /// A feed over records without other references.
    pub fn of(
        records: &Bound<'_, Records>,
        deserializers: Option<Deserializers>,
    ) -> PyResult<Self> {
        let (py, cursor) = (records.py(), Cursor::default());
        let rows = records.get().unused_rows(py)?;
        let maker = records.get().maker(py, &rows)?;
        let deserialized = records.get().is_deserialized(py).then(|| records.clone().unbind());
        let (last, before) = (None, None);
        let row_source = RowSource { maker, cursor, deserialized, deserializers, last, before };
        Ok(Feed::over(Source::Rows(rows), Some(row_source)))
    }

    /// Whether the loop has received all records.
    pub fn is_returned(&self, py: Python<'_>) -> bool {
        self.given.load(Ordering::Relaxed) == self.len(py)
    }

    fn len(&self, py: Python<'_>) -> usize {
        match &self.source {
            Source::Rows(rows) => rows.len(),
            Source::List(list) => list.bind(py).len(),
        }
    }

    /// Returns the next record; None at the end, or if Python must act first.
    ///
    /// Invariant: the count and the return are atomic for Python: no Python code runs in between.
    fn next_record(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let index = self.given.load(Ordering::Relaxed);
        if index == self.len(py) || self.stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let record = match &self.source {
            Source::List(list) => list.bind(py).get_item(index)?.unbind(),
            Source::Rows(rows) => {
                let Some(mut row_source) = self.row_source.with(py, Option::take) else {
                    // A deserializer is running, called by another thread or by this one.
                    let text = "KafkaConsumer is not safe for multi-threaded access: a record of \
                                this loop is being deserialized";
                    return Err(ConcurrentModificationError::new_err(text));
                };
                let made = row_source.next(py, rows, index);
                self.row_source.with(py, |place| *place = Some(row_source));
                match made? {
                    Some(record) => record,
                    None => return Ok(None),
                }
            }
        };
        // The garbage collector may have run Python code, and with it another thread.
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.given.store(index + 1, Ordering::Relaxed);
        Ok(Some(record))
    }
}

impl RowSource {
    fn next(&mut self, py: Python<'_>, rows: &Rows, index: usize) -> PyResult<Option<Py<PyAny>>> {
        let Some((columns, row)) = self.cursor.peek(rows) else { return Ok(None) };
        let replaced = match (&self.deserializers, &self.deserialized) {
            (Some(deserializers), _) => {
                let topic = rows.owner.topic.bind(py).as_any();
                let functions = [&deserializers.key(py), &deserializers.value(py)];
                match parts_of(py, columns, row, topic, functions)? {
                    Ok(parts) => parts,
                    Err((origin, error)) => {
                        let received = self.maker.make(py, columns, row, Replaced::default())?;
                        let error = deserializers.error_of.call1(py, (origin, error, received))?;
                        return Err(PyErr::from_value(error.into_bound(py)));
                    }
                }
            }
            (None, Some(deserialized)) => deserialized.get().replaced(py, index),
            (None, None) => Replaced::default(),
        };
        let oldest = std::mem::replace(&mut self.before, self.last.take());
        let (given, _) = self.maker.next_record(py, oldest, columns, row, 0, replaced)?;
        let record = given.record.clone_ref(py);
        self.last = Some(given);
        self.cursor.advance();
        Ok(Some(record))
    }
}

impl Deserializers {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for (function, _) in [&self.key, &self.value].into_iter().flatten() {
            visit.call(function)?;
        }
        visit.call(&self.error_of)
    }

    fn key<'py>(&self, py: Python<'py>) -> Function<'py> {
        self.key.as_ref().map(|(function, full)| (function.bind(py).clone(), *full))
    }

    fn value<'py>(&self, py: Python<'py>) -> Function<'py> {
        self.value.as_ref().map(|(function, full)| (function.bind(py).clone(), *full))
    }
}

#[pymethods]
impl Feed {
    /// `records` is a list or `Records`, which this feed deserializes if it is given `error_of`.
    #[new]
    #[pyo3(signature = (records, key = None, value = None, error_of = None))]
    fn new(
        records: &Bound<'_, PyAny>,
        key: Option<(Py<PyAny>, bool)>,
        value: Option<(Py<PyAny>, bool)>,
        error_of: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let py = records.py();
        match records.cast::<Records>() {
            // An interceptor has used them as a list.
            Ok(records) if records.get().unused_rows(py).is_err() => {
                Ok(Feed::over(Source::List(records.get().list(py)?.unbind()), None))
            }
            Ok(records) => {
                let deserializers = error_of.map(|error_of| Deserializers { key, value, error_of });
                Feed::of(records, deserializers)
            }
            Err(_) => {
                Ok(Feed::over(Source::List(records.cast::<PyList>()?.clone().unbind()), None))
            }
        }
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.len(py)
    }

    /// The number of records that the loop has received.
    #[getter]
    fn given(&self) -> usize {
        self.given.load(Ordering::Relaxed)
    }

    /// Whether the loop receives no further record.
    #[getter]
    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Offset and leader epoch of the record at an index.
    fn place_of(&self, py: Python<'_>, index: usize) -> PyResult<(i64, i32)> {
        match &self.source {
            Source::Rows(rows) => Ok(rows.place_of(index).unwrap_or((-1, -1))),
            Source::List(list) => {
                let record = list.bind(py).get_item(index)?;
                let offset = record.getattr(intern!(py, "offset"))?.extract()?;
                Ok((offset, record.getattr(intern!(py, "leader_epoch"))?.extract()?))
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Source::List(list) = &self.source {
            visit.call(list)?;
        }
        let Some(row_source) = self.row_source.for_traversal() else { return Ok(()) };
        if let Some(records) = &row_source.deserialized {
            visit.call(records)?; // which has the origin of derived ones
        } else {
            row_source.maker.traverse(&visit)?;
        }
        for returned in [&row_source.last, &row_source.before].into_iter().flatten() {
            visit.call(&returned.record)?; // its value may know the consumer
        }
        match &row_source.deserializers {
            Some(deserializers) => deserializers.traverse(&visit),
            None => Ok(()),
        }
    }

    /// Return no further records.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// The base class of a consumer that returns records in a loop.
///
/// Invariant: an event that may prevent the next record replaces the object `changes.count` last.
/// While it is the same object, nothing has changed since the last `_find_feed`, which read it
/// before its checks, and which handles everything else. After a fork, `_find_feed` checks again.
#[pyclass(frozen, subclass, module = "tandem_kafka._native")]
pub struct Loop {
    current: UnderGil<Option<Current>>,
}

struct Current {
    feed: Py<Feed>,
    changes: Py<PyAny>,
    seen: Py<PyAny>,
    /// A clock, and its time from which on `_find_feed` is called.
    until: Option<(Py<PyAny>, i64)>,
    forks: u64,
}

impl Loop {
    fn next_record(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let found = self.current.with(py, |current| {
            let current = current.as_ref().filter(|current| current.forks == forks())?;
            let changes = current.changes.clone_ref(py);
            let until = current.until.as_ref().map(|(clock, end)| (clock.clone_ref(py), *end));
            Some((current.feed.clone_ref(py), changes, current.seen.as_ptr(), until))
        });
        let Some((feed, changes, seen, until)) = found else { return Ok(None) };
        if let Some((clock, end)) = until
            && clock.call0(py)?.extract::<i64>(py)? >= end
        {
            return Ok(None);
        }
        // The known object stays alive while it is current; afterwards, the count is a different object.
        if changes.getattr(py, intern!(py, "count"))?.as_ptr() != seen {
            return Ok(None);
        }
        feed.get().next_record(py)
    }
}

#[pymethods]
impl Loop {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> Self {
        count_forks();
        Loop { current: UnderGil::new(None) }
    }

    /// Iterate over records; ends after `consumer_timeout_ms` without one.
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Return the next record, and move the position past it.
    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        loop {
            if let Some(record) = slf.get().next_record(py)? {
                return Ok(record);
            }
            slf.call_method0(intern!(py, "_find_feed"))?;
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.current.for_traversal() {
            Some(current) => {
                visit.call(&current.feed)?;
                current.until.iter().try_for_each(|(clock, _)| visit.call(clock))?;
                visit.call(&current.changes)
            }
            None => Ok(()),
        }
    }

    /// Visits the references of the consumer, for the garbage collector.
    fn __clear__(&self, py: Python<'_>) {
        let current = self.current.with(py, Option::take);
        drop(current);
    }

    /// Take records from `feed` as long as `changes.count` is `seen`, and a clock before its time.
    #[pyo3(signature = (feed, changes, seen, until = None))]
    fn _follow(
        &self,
        py: Python<'_>,
        feed: Py<Feed>,
        changes: Py<PyAny>,
        seen: Py<PyAny>,
        until: Option<(Py<PyAny>, i64)>,
    ) {
        let next = Some(Current { feed, changes, seen, until, forks: forks() });
        let before = self.current.with(py, |current| std::mem::replace(current, next));
        drop(before);
    }
}

/// The number of forks from the first process to this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

#[cfg(unix)]
fn count_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        // SAFETY: the function only counts, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

#[cfg(not(unix))]
fn count_forks() {}
