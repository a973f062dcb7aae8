//! The variable-length integers of records.

pub const PAST_THE_END: &str = "a record runs past the end of its batch";

/// Reads a zigzag varint.
#[inline(always)]
pub fn read_varint(data: &[u8], at: &mut usize) -> Result<i64, String> {
    let first = *data.get(*at).ok_or(PAST_THE_END)?;
    if first < 128 {
        *at += 1;
        return Ok(i64::from(first >> 1) ^ -i64::from(first & 1));
    }
    let second = *data.get(*at + 1).ok_or(PAST_THE_END)?;
    if second < 128 {
        *at += 2;
        let raw = (i64::from(second) << 7) | i64::from(first & 127);
        return Ok((raw >> 1) ^ -(raw & 1));
    }
    read_long_varint(data, at)
}

#[cold]
fn read_long_varint(data: &[u8], at: &mut usize) -> Result<i64, String> {
    let mut raw: u64 = 0;
    for shift in (0..70).step_by(7) {
        let byte = *data.get(*at).ok_or(PAST_THE_END)?;
        *at += 1;
        if shift == 63 && byte & 126 != 0 {
            return Err(if byte < 128 {
                "a varint has more than 64 bits".to_owned()
            } else {
                "a varint has more than ten bytes".to_owned()
            });
        }
        raw |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Ok((raw >> 1) as i64 ^ -((raw & 1) as i64));
        }
    }
    Err("a varint has more than ten bytes".to_owned())
}
