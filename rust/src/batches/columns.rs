//! One decoded batch: rows of positions in a buffer that all its records share.

use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::batches::varint::read_varint;
use crate::buffer::Buffer;

/// Where a record is and what it says of itself; 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub timestamp: i64,
    /// Relative to the batch's base offset.
    pub offset_delta: u32,
    pub key: Field,
    pub value: Field,
    /// Position of the number of headers; 0 for none, since no record begins there.
    pub headers_at: u32,
}

/// A key or a value: where its bytes are; a negative length is null.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub at: u32,
    pub length: i32,
}

/// Whose records these are.
pub struct Owner {
    pub topic: Py<PyString>,
    pub partition: i32,
}

/// The records of one batch.
pub struct Columns {
    pub data: Arc<Buffer>,
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub log_append_time: bool,
    pub rows: Vec<Row>,
    /// Set by the reader before the first record leaves it.
    pub owner: OnceLock<Arc<Owner>>,
}

impl Columns {
    pub fn offset(&self, row: usize) -> i64 {
        self.base_offset + i64::from(self.rows[row].offset_delta)
    }

    /// The bytes of a key or value, None for null.
    pub fn bytes(&self, field: Field) -> Option<&[u8]> {
        let length = usize::try_from(field.length).ok()?;
        let at = field.at as usize;
        Some(&self.data[at..at + length])
    }

    /// Bytes of a record's headers: names, as they are shown, and values.
    pub fn header_bytes(&self, row: usize) -> usize {
        let size = |(name, value): &(&[u8], Option<&[u8]>)| {
            String::from_utf8_lossy(name).len() + value.map_or(0, <[u8]>::len)
        };
        self.headers(row).iter().map(size).sum()
    }

    /// Bytes of a record's key, value and headers; one at least, so that a bound always ends.
    pub fn record_bytes(&self, row: usize) -> usize {
        let Row { key, value, headers_at, .. } = &self.rows[row];
        let headers = if *headers_at == 0 { 0 } else { self.header_bytes(row) };
        ((key.length.max(0) as usize) + (value.length.max(0) as usize) + headers).max(1)
    }

    pub fn owner(&self) -> &Owner {
        self.owner.get().expect("the reader names the owner of what it hands out")
    }

    /// The headers of a record: name and value.
    pub fn headers(&self, row: usize) -> Vec<(&[u8], Option<&[u8]>)> {
        let mut at = self.rows[row].headers_at as usize;
        if at == 0 {
            return Vec::new();
        }
        let data: &[u8] = &self.data;
        // Decoding has seen all of this to be there.
        let mut number = || read_varint(data, &mut at).map_or(-1, |value| value);
        let count = number();
        let mut headers = Vec::with_capacity(count.clamp(0, 64) as usize);
        for _ in 0..count {
            let length = read_varint(data, &mut at).unwrap_or(0).max(0) as usize;
            let name = &data[at..at + length];
            at += length;
            let length = read_varint(data, &mut at).unwrap_or(-1);
            let value = usize::try_from(length).ok().map(|length| {
                at += length;
                &data[at - length..at]
            });
            headers.push((name, value));
        }
        headers
    }
}
