//! One response as Python sees it: bytes, and for a fetch what was decoded of them at receipt.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::fetch::Fetched;
use crate::options::DecodeOptions;
use crate::view::fill_view;

/// A frame without its length. Supports the buffer protocol, read-only.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Frame {
    bytes: Arc<Buffer>,
    /// Taken by the one who asks for it first.
    fetched: Mutex<Option<Fetched>>,
}

impl Frame {
    /// A frame of whatever kind.
    pub fn plain(bytes: Vec<u8>) -> Self {
        Frame { bytes: Arc::new(Buffer::new(bytes)), fetched: Mutex::new(None) }
    }

    /// The answer to a fetch, response header included; decodes it, so call it without the GIL.
    pub fn fetch(bytes: Vec<u8>, version: i16, options: &DecodeOptions) -> Self {
        let bytes = Arc::new(Buffer::new(bytes));
        let fetched = crate::fetch::decode_frame(&bytes, version, options);
        Frame { bytes, fetched: Mutex::new(Some(fetched)) }
    }

    /// What was decoded at receipt, once.
    pub fn take_fetched(&self) -> Option<Fetched> {
        self.fetched.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
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
        // SAFETY: the view keeps this object alive, and through it the bytes, which never change.
        unsafe { fill_view(&slf, &slf.get().bytes, view, flags) }
    }
}
