//! One decoded batch: rows of positions in a buffer that its records share.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::batches::varint::read_varint;
use crate::buffer::Buffer;

/// Records that are kept may keep alive at most this multiple of their own memory.
pub const MAX_KEPT_RATIO: usize = 16;

/// The positions and fields of a record, in 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub timestamp: i64,
    /// Relative to the batch's base offset.
    pub offset_delta: u32,
    pub key: Field,
    pub value: Field,
    /// Position of the number of headers; 0 means no headers, because it is never a valid position.
    pub headers_at: u32,
}

/// The position of a key or value; a negative length is null.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub at: u32,
    pub length: i32,
}

impl Field {
    /// Its bytes, None for null.
    pub fn bytes(self, data: &[u8]) -> Option<&[u8]> {
        let length = usize::try_from(self.length).ok()?;
        let at = self.at as usize;
        Some(&data[at..at + length])
    }

    fn end(self) -> usize {
        self.at as usize + self.length.max(0) as usize
    }
}

impl Row {
    /// The encoded headers, beginning with their number, and all bytes after them; empty for none.
    pub fn encoded_headers<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        match self.headers_at as usize {
            0 => &[],
            at => &data[at..],
        }
    }

    /// The positions of key, value and headers.
    fn place(&self, data: &[u8]) -> Range<usize> {
        let end = match self.headers_at as usize {
            0 => self.value.end(),
            at => at + headers_length(&data[at..]),
        };
        self.key.at as usize..end
    }

    /// The same row in data that begins `distance` later.
    fn moved_by(&self, distance: usize) -> Self {
        let mut row = *self;
        row.key.at -= distance as u32;
        row.value.at -= distance as u32;
        // Follows the length of the value, so it is never 0.
        row.headers_at = row.headers_at.saturating_sub(distance as u32);
        row
    }
}

/// The topic and partition of the records.
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
    /// Set by the reader before it returns the first record.
    pub owner: OnceLock<Arc<Owner>>,
}

impl Columns {
    pub fn offset(&self, row: usize) -> i64 {
        self.base_offset + i64::from(self.rows[row].offset_delta)
    }

    /// Memory of the rows and their metadata, without the data.
    pub fn rows_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + size_of::<Columns>()
    }

    /// The bytes of a key or value, None for null.
    pub fn bytes(&self, field: Field) -> Option<&[u8]> {
        field.bytes(&self.data)
    }

    /// Bytes of a record's headers: decoded names, and values.
    pub fn header_bytes(&self, row: usize) -> usize {
        let size = |(name, value): &(&[u8], Option<&[u8]>)| {
            String::from_utf8_lossy(name).len() + value.map_or(0, <[u8]>::len)
        };
        self.headers(row).iter().map(size).sum()
    }

    /// Bytes of a record's key, value and headers; at least one, so that every limit is reached.
    pub fn record_bytes(&self, row: usize) -> usize {
        let Row { key, value, headers_at, .. } = &self.rows[row];
        let headers = if *headers_at == 0 { 0 } else { self.header_bytes(row) };
        ((key.length.max(0) as usize) + (value.length.max(0) as usize) + headers).max(1)
    }

    pub fn owner(&self) -> &Owner {
        self.owner.get().expect("the reader sets the owner of returned records")
    }

    pub fn shared_owner(&self) -> Arc<Owner> {
        Arc::clone(self.owner.get().expect("the reader sets the owner of returned records"))
    }

    /// The headers of a record: name and value.
    pub fn headers(&self, row: usize) -> Vec<(&[u8], Option<&[u8]>)> {
        parse_headers(self.encoded_headers(row)).collect()
    }

    /// The value of the first header of a name; None if there is none, or it has no value.
    pub fn header(&self, row: usize, name: &[u8]) -> Option<&[u8]> {
        parse_headers(self.encoded_headers(row)).find(|each| each.0 == name)?.1
    }

    /// The encoded headers of a record; see `Row::encoded_headers`.
    pub fn encoded_headers(&self, row: usize) -> &[u8] {
        self.rows[row].encoded_headers(&self.data)
    }

    /// The positions of the records from `start` up to `stop`.
    fn place(&self, start: usize, stop: usize) -> Range<usize> {
        self.rows[start].key.at as usize..self.rows[stop - 1].place(&self.data).end
    }

    /// The memory that these rows and their bytes need.
    pub fn needed_bytes(&self, start: usize, stop: usize) -> usize {
        self.place(start, stop).len() + (stop - start) * size_of::<Row>()
    }

    /// A copy of the rows with a buffer of their own.
    pub fn copied(&self, start: usize, stop: usize) -> Columns {
        let place = self.place(start, stop);
        let rows = self.rows[start..stop].iter().map(|row| row.moved_by(place.start)).collect();
        Columns {
            data: Arc::new(Buffer::new(self.data[place].to_vec())),
            base_offset: self.base_offset,
            leader_epoch: self.leader_epoch,
            log_append_time: self.log_append_time,
            rows,
            owner: self.owner.clone(),
        }
    }

    /// The memory that any of the rows keeps alive.
    pub fn kept_bytes(&self) -> usize {
        self.data.capacity() + self.rows_bytes()
    }

    /// True if a record keeps much more memory alive than it uses.
    pub fn is_large_beside(&self, row: usize) -> bool {
        let needed = self.rows[row].place(&self.data).len() + size_of::<Row>();
        needed * MAX_KEPT_RATIO < self.kept_bytes()
    }
}

/// Reads headers: name and value of each.
pub fn parse_headers(data: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let mut at = 0;
    // Decoding has checked that all of this exists.
    let count = read_varint(data, &mut at).unwrap_or(0);
    (0..count).map(move |_| {
        let length = read_varint(data, &mut at).unwrap_or(0).max(0) as usize;
        let name = &data[at..at + length];
        at += length;
        let length = read_varint(data, &mut at).unwrap_or(-1);
        let value = usize::try_from(length).ok().map(|length| {
            at += length;
            &data[at - length..at]
        });
        (name, value)
    })
}

/// Bytes of encoded headers.
pub fn headers_length(data: &[u8]) -> usize {
    let mut at = 0;
    for _ in 0..2 * read_varint(data, &mut at).unwrap_or(0) {
        let length = read_varint(data, &mut at).unwrap_or(0);
        at += length.max(0) as usize;
    }
    at
}
