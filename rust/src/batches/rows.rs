//! Decodes the records of a v2 batch in parts; the counterpart of records/v2.py.
//!
//! A record consists of its length, an unused attribute byte, and zigzag varints: timestamp and
//! offset relative to the batch, key length, value length, and number of headers. Key, value and
//! headers follow their lengths.

use crate::batches::columns::{Field, Row};
use crate::batches::header::BatchHeader;
use crate::batches::varint::{PAST_THE_END, read_varint};

/// The smallest possible record; it limits the memory allocated for a claimed number of records.
const SMALLEST_RECORD: usize = 7;

/// A part ends with the record that reaches one of these limits. A row needs more memory than an
/// empty record, so a large batch is never decoded at once. records/v2.py has the same limits.
const PART_RECORDS: usize = 65_536;
const PART_BYTES: usize = 8 * 1024 * 1024;
const PART_HEADERS: usize = 100_000;

/// The progress of decoding a batch's records.
#[derive(Clone, Debug)]
pub struct Cursor {
    at: usize,
    to: usize,
    records_remaining: usize,
    /// The minimum offset delta of the next record.
    least: i64,
}

impl Cursor {
    /// Starts before the records in `data[from..to]`.
    pub fn new(header: &BatchHeader, from: usize, to: usize) -> Self {
        Cursor { at: from, to, records_remaining: header.record_count, least: 0 }
    }

    /// True after the last record.
    pub fn is_done(&self) -> bool {
        self.records_remaining == 0 && self.at == self.to
    }

    /// The remaining bytes, and an upper limit of the remaining records.
    fn max_remaining(&self) -> usize {
        self.records_remaining.min((self.to - self.at) / SMALLEST_RECORD)
    }

    /// Appends the rows of the next part; their offsets are relative to the batch's plus `shift`.
    pub fn decode_part(
        &mut self,
        data: &[u8],
        header: &BatchHeader,
        shift: u32,
        max_headers: usize,
        rows: &mut Vec<Row>,
    ) -> Result<(), String> {
        if u32::try_from(self.to).is_err() {
            return Err("a batch has more than 4 GiB".to_owned());
        }
        let data = &data[..self.to];
        let span = header.last_offset - header.base_offset;
        let (mut at, mut least, mut headers) = (self.at, self.least, 0);
        let enough = at.saturating_add(PART_BYTES);
        let count = self.records_remaining.min(PART_RECORDS);
        rows.reserve(count.min(self.max_remaining()));
        let before = rows.len();
        for _ in 0..count {
            let (row, delta) = decode_one(data, &mut at, header, &mut headers, max_headers)?;
            if delta < 0 || delta > span {
                return Err("a record's offset is outside its batch".to_owned());
            }
            if delta < least {
                return Err("the offsets of a batch do not increase".to_owned());
            }
            least = delta + 1;
            rows.push(Row { offset_delta: delta as u32 + shift, ..row });
            if at >= enough || headers >= PART_HEADERS {
                break;
            }
        }
        self.records_remaining -= rows.len() - before;
        (self.at, self.least) = (at, least);
        match self.to - self.at {
            remaining if remaining > 0 && self.records_remaining == 0 => {
                Err(format!("{remaining} bytes follow the last record"))
            }
            _ => Ok(()),
        }
    }
}

#[inline(always)]
fn decode_one(
    data: &[u8],
    at: &mut usize,
    header: &BatchHeader,
    headers: &mut usize,
    max_headers: usize,
) -> Result<(Row, i64), String> {
    let length = read_varint(data, at)?;
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| at.checked_add(length))
        .ok_or(PAST_THE_END)?;
    *at += 1; // the attributes, which are unused
    let timestamp_delta = read_varint(data, at)?;
    let offset_delta = read_varint(data, at)?;
    let key = read_field(data, at)?;
    let value = read_field(data, at)?;
    let mut headers_at = 0;
    match data.get(*at) {
        Some(0) => *at += 1,
        Some(_) => {
            headers_at = *at as u32;
            let offset = header.base_offset.wrapping_add(offset_delta);
            *headers += skip_headers(data, at, offset, max_headers)?;
        }
        None => return Err(PAST_THE_END.to_owned()),
    }
    if *at != end {
        let off = end as i64 - *at as i64;
        return Err(format!("a record's length is off by {off:+} bytes"));
    }
    let timestamp = if header.log_append_time() {
        header.max_timestamp
    } else {
        header.base_timestamp.wrapping_add(timestamp_delta)
    };
    Ok((Row { timestamp, offset_delta: 0, key, value, headers_at }, offset_delta))
}

#[inline(always)]
fn read_field(data: &[u8], at: &mut usize) -> Result<Field, String> {
    let length = read_varint(data, at)?;
    let from = *at as u32;
    if length < 0 {
        return Ok(Field { at: from, length: -1 });
    }
    let end = at.checked_add(length as usize).filter(|end| *end <= data.len());
    *at = end.ok_or(PAST_THE_END)?;
    Ok(Field { at: from, length: length as i32 })
}

/// Skips the headers of the record at `offset`, and returns their number.
fn skip_headers(
    data: &[u8],
    at: &mut usize,
    offset: i64,
    max_headers: usize,
) -> Result<usize, String> {
    let count = read_varint(data, at)?;
    let Ok(headers) = usize::try_from(count) else {
        return Err(format!("a record has {count} headers"));
    };
    if headers > max_headers {
        return Err(format!(
            "the record at offset {offset} has {count} headers, more than the {max_headers} of \
             max_record_headers"
        ));
    }
    for _ in 0..headers {
        if read_field(data, at)?.length < 0 {
            return Err("a header has no name".to_owned());
        }
        read_field(data, at)?;
    }
    Ok(headers)
}
