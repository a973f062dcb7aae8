//! The record batches of one fetched partition, from their bytes to columns.

mod columns;
mod compression;
mod decoder;
mod header;
mod problem;
mod rows;
mod varint;

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use pyo3::buffer::PyBuffer;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::batches::header::Walk;
use crate::buffer::{self, Buffer};
use crate::options::DecodeOptions;

pub use crate::batches::columns::{Columns, Field, Owner, Row};
pub use crate::batches::decoder::{Decoder, Segment};
pub use crate::batches::problem::Problem;

/// The bytes of a partition's batches, with what of them has been decoded ahead.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Batches {
    frame: Arc<Buffer>,
    from: usize,
    to: usize,
    aborted: Vec<(i64, i64)>,
    walk: Arc<Walk>,
    ahead: Mutex<Option<Ahead>>,
}

/// What was decoded before anyone asked.
pub struct Ahead {
    pub segments: VecDeque<Segment>,
    pub decoder: Decoder,
}

impl Batches {
    pub fn new(frame: Arc<Buffer>, from: usize, to: usize, aborted: &[(i64, i64)]) -> Self {
        let walk = Arc::new(header::walk(&frame[from..to]));
        Batches { frame, from, to, aborted: aborted.to_vec(), walk, ahead: Mutex::new(None) }
    }

    /// Decodes batch after batch while there is budget; what is uncompressed costs none of it.
    pub fn decode_ahead(&mut self, options: &DecodeOptions, budget: &mut usize) {
        if self.walk.legacy {
            return;
        }
        let mut decoder = self.decoder(options);
        let mut segments = VecDeque::with_capacity(self.walk.headers.len());
        while *budget > 0 && !decoder.stopped() {
            // A problem is met again, and told, by the reader that comes to it.
            let Some(Ok(segment)) = decoder.next() else { break };
            *budget = budget.saturating_sub(segment.unpacked_bytes);
            segments.push_back(segment);
        }
        let ahead = self.ahead.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        *ahead = Some(Ahead { segments, decoder });
    }

    fn decoder(&self, options: &DecodeOptions) -> Decoder {
        Decoder::new(self.frame.clone(), self.from, self.walk.clone(), &self.aborted, *options)
    }

    /// Hands over what was decoded ahead, if it was with these options; else begins anew.
    pub fn open(&self, options: &DecodeOptions) -> Ahead {
        let ahead = self.ahead.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        match ahead {
            Some(ahead) if ahead.decoder.options == *options => ahead,
            _ => Ahead { segments: VecDeque::new(), decoder: self.decoder(options) },
        }
    }

    pub fn size_bytes(&self) -> usize {
        self.to - self.from
    }

    /// Offset of the last record of the last complete batch.
    pub fn last_offset(&self) -> Option<i64> {
        self.walk.headers.last().map(|header| header.last_offset)
    }
}

#[pymethods]
impl Batches {
    /// The batches in `data`, which is copied.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: PyBuffer<u8>, aborted: Vec<(i64, i64)>) -> PyResult<Self> {
        let mut bytes = buffer::claim(data.len_bytes());
        bytes.resize(data.len_bytes(), 0);
        data.copy_to_slice(py, &mut bytes)?;
        let length = bytes.len();
        Ok(Batches::new(Arc::new(Buffer::new(bytes)), 0, length, &aborted))
    }

    /// True where there are messages of format v0 or v1, which the Python twin reads.
    #[getter]
    fn legacy(&self) -> bool {
        self.walk.legacy
    }

    fn __len__(&self) -> usize {
        self.size_bytes()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let batches = slf.get();
        let bytes = &batches.frame[batches.from..batches.to];
        // SAFETY: the view keeps this object alive, and through it the bytes, which never change.
        unsafe { crate::view::fill_view(&slf, bytes, view, flags) }
    }
}
