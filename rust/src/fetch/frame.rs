//! The Python object of a fetch response: its frame, and what was decoded on receipt.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::fetch::response::Fetched;
use crate::frame::Frame;

/// A class of its own, for frames stand below batches, and what this one holds has batches in it.
#[pyclass(frozen, extends = Frame, module = "tandem_kafka._native")]
pub struct FetchFrame {
    /// Taken by the first caller.
    fetched: Mutex<Option<Fetched>>,
}

impl FetchFrame {
    /// A response with its header, of which some bytes are elsewhere, and what it was decoded to.
    pub fn new(bytes: Arc<Buffer>, elsewhere: usize, fetched: Fetched) -> (Self, Frame) {
        (FetchFrame { fetched: Mutex::new(Some(fetched)) }, Frame::new(bytes, elsewhere))
    }

    /// The part decoded on receipt; only the first call returns it.
    pub fn take(&self) -> Option<Fetched> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
