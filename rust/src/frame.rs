//! The Python object of a response: its bytes, and for a fetch the part decoded on receipt.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use pyo3::buffer::PyBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::buffer::{Buffer, Slice};
use crate::fetch::{Fetched, Received};
use crate::view::fill_view;

/// A frame without its length prefix. Supports the buffer protocol, read-only.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Frame {
    bytes: Arc<Buffer>,
    block_bytes: usize,
    /// Taken by the first caller.
    fetched: Mutex<Option<Fetched>>,
}

impl Frame {
    /// A frame that is not decoded.
    pub fn plain(received: Received) -> Self {
        let block_bytes = received.block_bytes();
        let bytes = Arc::new(Buffer::new(received.bytes));
        Frame { bytes, block_bytes, fetched: Mutex::new(None) }
    }

    /// A fetch response with its header, and what it was decoded to.
    pub fn fetch(bytes: Arc<Buffer>, block_bytes: usize, fetched: Fetched) -> Self {
        Frame { bytes, block_bytes, fetched: Mutex::new(Some(fetched)) }
    }

    /// The bytes of a memoryview of a frame; None if it is none, or not of bytes in a row.
    pub fn viewed_by(data: &Bound<'_, PyAny>, view: &PyBuffer<u8>) -> Option<Slice> {
        let owner = data.cast::<PyMemoryView>().ok()?.getattr("obj").ok()?;
        let bytes = &owner.cast::<Frame>().ok()?.get().bytes;
        let from = (view.buf_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        let to = from + view.len_bytes();
        let inside = view.is_c_contiguous() && to <= bytes.len();
        inside.then(|| Slice::new(bytes.clone(), from, to))
    }

    /// The part decoded on receipt; only the first call returns it.
    pub fn take_fetched(&self) -> Option<Fetched> {
        self.fetched.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}

#[pymethods]
impl Frame {
    /// Bytes of the frame outside this buffer: records in separate buffers.
    #[getter]
    fn elsewhere(&self) -> usize {
        self.block_bytes
    }

    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the view keeps this object alive, which owns the immutable bytes.
        unsafe { fill_view(&slf, &slf.get().bytes, view, flags) }
    }
}
