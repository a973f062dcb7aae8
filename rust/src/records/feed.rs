//! `for record in consumer`: records that are handed out one by one, without a call of Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::import_exception;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::records::deserialized::{Function, parts_of};
use crate::records::maker::{Given, Maker};
use crate::records::rows::{Cursor, Rows};
use crate::records::sequence::Records;
use crate::records::under_gil::UnderGil;

import_exception!(tandem_kafka.errors, ConcurrentModificationError);

/// Records of one partition, and how many of them the loop was given.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Feed {
    source: Source,
    given: AtomicUsize,
    stopped: AtomicBool,
    /// None while a record is being made.
    making: UnderGil<Option<Making>>,
}

enum Source {
    Rows(Arc<Rows>),
    List(Py<PyList>),
}

/// What makes the next record of rows.
struct Making {
    maker: Maker,
    cursor: Cursor,
    deserializers: Option<Deserializers>,
    last: Option<Given>,
    before: Option<Given>,
}

/// Functions of the user's, each with whether it is given topic and headers too.
struct Deserializers {
    key: Option<(Py<PyAny>, bool)>,
    value: Option<(Py<PyAny>, bool)>,
    /// Returns the error to raise for a record that is as it was received.
    error_of: Py<PyAny>,
}

impl Feed {
    fn len(&self, py: Python<'_>) -> usize {
        match &self.source {
            Source::Rows(rows) => rows.len(),
            Source::List(list) => list.bind(py).len(),
        }
    }

    /// Hands out the next record; None at the end, or if something has to be looked at first.
    ///
    /// The count moves with the return: no Python code runs in between.
    fn give(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let index = self.given.load(Ordering::Relaxed);
        if index == self.len(py) || self.stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let record = match &self.source {
            Source::List(list) => list.bind(py).get_item(index)?.unbind(),
            Source::Rows(rows) => {
                let Some(mut making) = self.making.with(py, Option::take) else {
                    // A deserializer is at work, called by another thread or by this one.
                    let text = "KafkaConsumer is not safe for multi-threaded access: a record of \
                                this loop is being deserialized";
                    return Err(ConcurrentModificationError::new_err(text));
                };
                let made = making.next(py, rows);
                self.making.with(py, |place| *place = Some(making));
                match made? {
                    Some(record) => record,
                    None => return Ok(None),
                }
            }
        };
        // The making may have run Python code, by the garbage collection, and that another thread.
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.given.store(index + 1, Ordering::Relaxed);
        Ok(Some(record))
    }
}

impl Making {
    fn next(&mut self, py: Python<'_>, rows: &Rows) -> PyResult<Option<Py<PyAny>>> {
        let Some((columns, row)) = self.cursor.peek(rows) else { return Ok(None) };
        let record = match &self.deserializers {
            Some(deserializers) => {
                let topic = rows.owner.topic.bind(py).as_any();
                match parts_of(
                    py,
                    columns,
                    row,
                    topic,
                    [&deserializers.key(py), &deserializers.value(py)],
                )? {
                    Ok(parts) => self.maker.make_with(py, columns, row, parts)?,
                    Err((origin, error)) => {
                        let received = self.maker.make(py, columns, row)?;
                        let error = deserializers.error_of.call1(py, (origin, error, received))?;
                        return Err(PyErr::from_value(error.into_bound(py)));
                    }
                }
            }
            None => {
                let oldest = std::mem::replace(&mut self.before, self.last.take());
                let (given, _) = self.maker.hand_out(py, oldest, columns, row, 0)?;
                let record = given.record.clone_ref(py);
                self.last = Some(given);
                record
            }
        };
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
    /// `records` is a list, or `Records` that nobody else has, which are then deserialized.
    #[new]
    #[pyo3(signature = (records, key = None, value = None, error_of = None))]
    fn new(
        records: &Bound<'_, PyAny>,
        key: Option<(Py<PyAny>, bool)>,
        value: Option<(Py<PyAny>, bool)>,
        error_of: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let py = records.py();
        let (source, making) = match records.cast::<Records>() {
            Ok(records) => {
                let rows = records.get().fresh_rows(py)?;
                let maker = Maker::new(py, Arc::clone(&rows.owner))?;
                let deserializers = error_of.map(|error_of| Deserializers { key, value, error_of });
                let cursor = Cursor::default();
                let making = Making { maker, cursor, deserializers, last: None, before: None };
                (Source::Rows(rows), Some(making))
            }
            Err(_) => (Source::List(records.cast::<PyList>()?.clone().unbind()), None),
        };
        Ok(Feed {
            source,
            given: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            making: UnderGil::new(making),
        })
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.len(py)
    }

    /// How many records the loop was given.
    #[getter]
    fn given(&self) -> usize {
        self.given.load(Ordering::Relaxed)
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
        let making = self.making.for_traversal().as_ref();
        match making.and_then(|making| making.deserializers.as_ref()) {
            Some(deserializers) => deserializers.traverse(&visit),
            None => Ok(()),
        }
    }

    /// Give no further record.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// The part of a consumer that hands out records in a loop.
///
/// What may keep the next record back is noted in `changes.count`: while that is the same object,
/// nothing has changed since `_find_feed` has looked. Everything else is left to `_find_feed`.
#[pyclass(frozen, subclass, module = "tandem_kafka._native")]
pub struct Loop {
    current: UnderGil<Option<Current>>,
}

struct Current {
    feed: Py<Feed>,
    changes: Py<PyAny>,
    seen: Py<PyAny>,
    forks: u64,
}

impl Loop {
    fn give(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let found = self.current.with(py, |current| {
            let current = current.as_ref().filter(|current| current.forks == forks())?;
            let changes = current.changes.clone_ref(py);
            Some((current.feed.clone_ref(py), changes, current.seen.as_ptr()))
        });
        let Some((feed, changes, seen)) = found else { return Ok(None) };
        // The object that was seen is alive as long as it is current, or the count is another one.
        if changes.getattr(py, intern!(py, "count"))?.as_ptr() != seen {
            return Ok(None);
        }
        feed.get().give(py)
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

    /// Return the next record; the position moves behind it.
    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        loop {
            if let Some(record) = slf.get().give(py)? {
                return Ok(record);
            }
            slf.call_method0(intern!(py, "_find_feed"))?;
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.current.for_traversal() {
            Some(current) => {
                visit.call(&current.feed)?;
                visit.call(&current.changes)
            }
            None => Ok(()),
        }
    }

    /// What a consumer that nobody reaches any more holds of others.
    fn __clear__(&self, py: Python<'_>) {
        let current = self.current.with(py, Option::take);
        drop(current);
    }

    /// Take records from `feed` as long as `changes.count` is `seen`.
    fn _follow(&self, py: Python<'_>, feed: Py<Feed>, changes: Py<PyAny>, seen: Py<PyAny>) {
        let next = Some(Current { feed, changes, seen, forks: forks() });
        let before = self.current.with(py, |current| std::mem::replace(current, next));
        drop(before);
    }
}

/// How often this process has become a fork.
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
        // SAFETY: the function may run in any child: it does nothing but count.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

#[cfg(not(unix))]
fn count_forks() {}
