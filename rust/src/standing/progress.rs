//! How far a partition has been fetched: numbers that both threads read.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The numbers. Writer, unless noted: the network thread, in Python or in a standing fetch.
pub struct Progress {
    pub high_watermark: AtomicI64,
    pub last_stable_offset: AtomicI64,
    pub log_start_offset: AtomicI64,
    pub read_ahead: AtomicI64,
    pub buffered_bytes: AtomicI64,
    /// Writer: the application thread.
    pub released_bytes: AtomicI64,
}

impl Progress {
    /// The bytes that have been fetched but not released.
    pub fn held(&self) -> i64 {
        self.buffered_bytes.load(SeqCst) - self.released_bytes.load(SeqCst)
    }
}

/// The base class of `AssignedPartition`; `PythonFetchProgress` is the other implementation.
#[pyclass(frozen, subclass, module = "tandem_kafka._native")]
pub struct FetchProgress(pub Arc<Progress>);

#[pymethods]
impl FetchProgress {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> Self {
        let unknown = || AtomicI64::new(-1);
        FetchProgress(Arc::new(Progress {
            high_watermark: unknown(),
            last_stable_offset: unknown(),
            log_start_offset: unknown(),
            read_ahead: unknown(),
            buffered_bytes: AtomicI64::new(0),
            released_bytes: AtomicI64::new(0),
        }))
    }

    #[getter]
    fn high_watermark(&self) -> i64 {
        self.0.high_watermark.load(SeqCst)
    }

    #[setter]
    fn set_high_watermark(&self, value: i64) {
        self.0.high_watermark.store(value, SeqCst);
    }

    #[getter]
    fn last_stable_offset(&self) -> i64 {
        self.0.last_stable_offset.load(SeqCst)
    }

    #[setter]
    fn set_last_stable_offset(&self, value: i64) {
        self.0.last_stable_offset.store(value, SeqCst);
    }

    #[getter]
    fn log_start_offset(&self) -> i64 {
        self.0.log_start_offset.load(SeqCst)
    }

    #[setter]
    fn set_log_start_offset(&self, value: i64) {
        self.0.log_start_offset.store(value, SeqCst);
    }

    #[getter]
    fn read_ahead(&self) -> i64 {
        self.0.read_ahead.load(SeqCst)
    }

    #[setter]
    fn set_read_ahead(&self, value: i64) {
        self.0.read_ahead.store(value, SeqCst);
    }

    #[getter]
    fn buffered_bytes(&self) -> i64 {
        self.0.buffered_bytes.load(SeqCst)
    }

    #[setter]
    fn set_buffered_bytes(&self, value: i64) {
        self.0.buffered_bytes.store(value, SeqCst);
    }

    #[getter]
    fn released_bytes(&self) -> i64 {
        self.0.released_bytes.load(SeqCst)
    }

    #[setter]
    fn set_released_bytes(&self, value: i64) {
        self.0.released_bytes.store(value, SeqCst);
    }
}
