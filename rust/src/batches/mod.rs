//! The record batches of one fetched partition: from bytes to columns.

mod budget;
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
use crate::buffer::{self, Buffer, Slice};
use crate::frame::Frame;
use crate::options::DecodeOptions;

pub use crate::batches::budget::Budget;
pub use crate::batches::columns::{
    Columns, Field, MAX_KEPT_RATIO, Owner, Row, headers_length, parse_headers,
};
pub use crate::batches::decoder::{Decoder, Segment};
pub use crate::batches::problem::Problem;

/// The bytes of a partition's batches, and the segments decoded ahead.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct Batches {
    data: Slice,
    aborted: Vec<(i64, i64)>,
    high_watermark: i64,
    walk: Walk,
    ahead: Mutex<Option<Ahead>>,
}

/// The segments decoded ahead.
pub struct Ahead {
    pub segments: VecDeque<Segment>,
    pub decoder: Decoder,
}

impl Batches {
    /// A high watermark of 0 or less means unknown.
    pub fn new(data: &Slice, aborted: &[(i64, i64)], high_watermark: i64) -> Self {
        let (data, walk) = (data.clone(), header::walk(data, high_watermark));
        let (aborted, ahead) = (aborted.to_vec(), Mutex::new(None));
        Batches { data, aborted, high_watermark, walk, ahead }
    }

    /// Decodes batches ahead while `room` and the budget last, and returns their memory. The others
    /// are decoded on demand.
    pub fn decode_ahead(
        &mut self,
        options: &DecodeOptions,
        room: &mut usize,
        budget: &Arc<Budget>,
    ) -> usize {
        if self.walk.legacy {
            return 0;
        }
        let mut memory = 0;
        let mut decoder = self.decoder(options);
        let mut segments = VecDeque::new();
        while !decoder.stopped() {
            let remaining = budget.remaining().min(*room);
            if remaining == 0 {
                break;
            }
            // The reader meets the problem again, and reports it.
            let Some(Ok(mut segment)) = decoder.next_within(remaining) else { break };
            let bytes = segment.rows_bytes() + segment.unpacked_bytes;
            *room = room.saturating_sub(bytes);
            memory += bytes;
            segment.charge = Some(budget.spend(bytes));
            segments.push_back(segment);
        }
        segments.shrink_to_fit();
        let ahead = self.ahead.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        *ahead = Some(Ahead { segments, decoder });
        memory
    }

    fn decoder(&self, options: &DecodeOptions) -> Decoder {
        Decoder::new(self.data.clone(), &self.walk, &self.aborted, *options)
    }

    /// Returns the decoder with the segments decoded ahead if its options match; otherwise a new one.
    pub fn open(&self, options: &DecodeOptions) -> Ahead {
        let ahead = self.ahead.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        match ahead {
            Some(ahead) if ahead.decoder.options == *options => ahead,
            _ => Ahead { segments: VecDeque::new(), decoder: self.decoder(options) },
        }
    }

    /// Checks these bytes as the response to a fetch from `offset`.
    pub fn check_beginning(&self, offset: i64) -> Option<String> {
        header::check_beginning(&self.data, &self.walk, offset, self.high_watermark)
    }

    /// The memory that these bytes keep alive.
    pub fn held_bytes(&self) -> usize {
        self.data.buffer.capacity()
    }

    /// The number of encoded bytes.
    #[allow(clippy::len_without_is_empty)] // there is no partition without bytes
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// True if the bytes are batches of format v2 without a problem.
    pub fn is_plain(&self) -> bool {
        !self.walk.legacy && self.walk.problem.is_none()
    }

    /// Offset of the last record of the last complete batch.
    pub fn last_offset(&self) -> Option<i64> {
        self.walk.last_offset
    }
}

#[pymethods]
impl Batches {
    /// Creates batches from `data`: a view of a frame, or other bytes, which are copied.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        aborted: Vec<(i64, i64)>,
        high_watermark: i64,
    ) -> PyResult<Self> {
        let view = PyBuffer::<u8>::get(data)?;
        let data = match Frame::viewed_by(data, &view) {
            Some(data) => data,
            None => {
                let mut bytes = buffer::claim(view.len_bytes());
                bytes.resize(view.len_bytes(), 0);
                view.copy_to_slice(py, &mut bytes)?;
                Slice::whole(Arc::new(Buffer::new(bytes)))
            }
        };
        Ok(Batches::new(&data, &aborted, high_watermark))
    }

    /// True if there are messages of format v0 or v1, which only the Python implementation reads.
    #[getter]
    fn legacy(&self) -> bool {
        self.walk.legacy
    }

    fn __len__(&self) -> usize {
        self.data.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the view keeps this object alive, which owns the immutable bytes.
        unsafe { crate::view::fill_view(&slf, &slf.get().data, view, flags) }
    }
}
