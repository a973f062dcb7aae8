//! Decodes the records of a v2 batch; the twin of records/v2.py.
//!
//! A record is its length, an unused attribute byte, then as zigzag varints: timestamp and offset
//! relative to the batch, key length, value length, number of headers, the bytes between them.

use crate::batches::columns::{Field, Row};
use crate::batches::header::BatchHeader;
use crate::batches::varint::{PAST_THE_END, read_varint};

/// The smallest record there is, to bound what is allocated on the word of a count.
const SMALLEST_RECORD: usize = 7;

/// Returns the rows of the batch whose (decompressed) records are `data[from..to]`.
pub fn decode(
    data: &[u8],
    from: usize,
    to: usize,
    header: &BatchHeader,
) -> Result<Vec<Row>, String> {
    if u32::try_from(to).is_err() {
        return Err("a batch has more than 4 GiB".to_owned());
    }
    let data = &data[..to];
    let mut rows = Vec::with_capacity(header.record_count.min((to - from) / SMALLEST_RECORD));
    let span = header.last_offset - header.base_offset;
    let mut at = from;
    let mut least = 0;
    for _ in 0..header.record_count {
        let row = decode_one(data, &mut at, header)?;
        let delta = row.1;
        if delta < 0 || delta > span {
            return Err("a record's offset is outside its batch".to_owned());
        }
        if delta < least {
            return Err("the offsets of a batch do not grow".to_owned());
        }
        least = delta + 1;
        rows.push(Row { offset_delta: delta as u32, ..row.0 });
    }
    match to - at {
        0 => Ok(rows),
        left => Err(format!("{left} bytes stand behind the last record")),
    }
}

#[inline(always)]
fn decode_one(data: &[u8], at: &mut usize, header: &BatchHeader) -> Result<(Row, i64), String> {
    let length = read_varint(data, at)?;
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| at.checked_add(length))
        .ok_or(PAST_THE_END)?;
    *at += 1; // the attributes: none is in use
    let timestamp_delta = read_varint(data, at)?;
    let offset_delta = read_varint(data, at)?;
    let key = read_field(data, at)?;
    let value = read_field(data, at)?;
    let mut headers_at = 0;
    match data.get(*at) {
        Some(0) => *at += 1,
        Some(_) => {
            headers_at = *at as u32;
            skip_headers(data, at)?;
        }
        None => return Err(PAST_THE_END.to_owned()),
    }
    if *at != end {
        let off = end as i64 - *at as i64;
        return Err(format!("a record's length says {off:+} bytes of what it has"));
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

fn skip_headers(data: &[u8], at: &mut usize) -> Result<(), String> {
    let count = read_varint(data, at)?;
    if count < 0 {
        return Err(format!("a record has {count} headers"));
    }
    for _ in 0..count {
        if read_field(data, at)?.length < 0 {
            return Err("a header has no name".to_owned());
        }
        read_field(data, at)?;
    }
    Ok(())
}
