//! Encodes batches like a producer.

pub fn varint(value: i64, into: &mut Vec<u8>) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw > 127 {
        into.push(raw as u8 & 127 | 128);
        raw >>= 7;
    }
    into.push(raw as u8);
}

/// A batch in format v2; its CRC is zero.
pub fn batch(
    base_offset: i64,
    codec: i16,
    timestamp: i64,
    count: usize,
    records: &[u8],
) -> Vec<u8> {
    let mut bytes = base_offset.to_be_bytes().to_vec();
    bytes.extend((49 + records.len() as i32).to_be_bytes());
    bytes.extend(7_i32.to_be_bytes());
    bytes.push(2);
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(codec.to_be_bytes());
    bytes.extend((count as i32 - 1).to_be_bytes());
    bytes.extend(timestamp.to_be_bytes());
    bytes.extend(timestamp.to_be_bytes());
    bytes.extend((-1_i64).to_be_bytes());
    bytes.extend((-1_i16).to_be_bytes());
    bytes.extend((-1_i32).to_be_bytes());
    bytes.extend((count as i32).to_be_bytes());
    bytes.extend(records);
    bytes
}
