//! The Python object of a response: its bytes.

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::buffer::{Buffer, Slice};
use crate::view::fill_view;

/// A frame without its length prefix. Supports the buffer protocol, read-only.
#[pyclass(frozen, subclass, module = "tandem_kafka._native")]
pub struct Frame {
    bytes: Arc<Buffer>,
    /// Bytes of the frame outside this buffer: records in separate buffers.
    #[pyo3(get)]
    elsewhere: usize,
}

impl Frame {
    pub fn new(bytes: Arc<Buffer>, elsewhere: usize) -> Self {
        Frame { bytes, elsewhere }
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
}

#[pymethods]
impl Frame {
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
