//! Corrupt bytes cause no panic and no memory beyond the limit, and offsets still increase.

mod encoding;

use std::sync::Arc;

use _native::batches::{Batches, Budget, Segment};
use _native::buffer::{Buffer, Slice};
use _native::fetch::{Block, Fetched, decode_frame};
use _native::options::DecodeOptions;
use encoding::varint;
use proptest::prelude::*;

const BASE_OFFSET: i64 = 10;
const OPTIONS: DecodeOptions = DecodeOptions {
    read_committed: true,
    check_crcs: false,
    max_decompressed_batch_bytes: 1 << 20,
    max_record_headers: 100,
};

fn decode_ahead(
    frame: &Arc<Buffer>,
    blocks: &[Block<Arc<Buffer>>],
    version: i16,
    options: &DecodeOptions,
    budget: &Arc<Budget>,
) -> Fetched {
    let mut decoded = decode_frame(frame, blocks, version);
    if let Ok(response) = &mut decoded {
        response.decode_ahead(options, budget);
    }
    decoded
}

fn record(offset_delta: i64, value: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    varint(-3, &mut body);
    varint(offset_delta, &mut body);
    varint(3, &mut body);
    body.extend(b"key");
    varint(value.len() as i64, &mut body);
    body.extend(value);
    varint(1, &mut body);
    varint(1, &mut body);
    body.extend(b"h");
    varint(-1, &mut body);
    let mut whole = Vec::new();
    varint(body.len() as i64, &mut whole);
    whole.extend(body);
    whole
}

fn batch(codec: i16) -> Vec<u8> {
    let mut records: Vec<u8> = (0..5).flat_map(|i| record(i, &[i as u8; 90])).collect();
    records = match codec {
        2 => snap::raw::Encoder::new().compress_vec(&records).unwrap(),
        4 => zstd::encode_all(&records[..], 0).unwrap(),
        _ => records,
    };
    encoding::batch(BASE_OFFSET, codec, 1_000, 5, &records)
}

/// A response of version 12 with one partition.
fn response(records: &[u8]) -> Vec<u8> {
    let mut bytes = 1_i32.to_be_bytes().to_vec();
    bytes.push(0);
    bytes.extend([0; 10]);
    bytes.extend([2, 2, b't', 2]);
    bytes.extend(0_i32.to_be_bytes());
    bytes.extend(0_i16.to_be_bytes());
    bytes.extend([0; 24]);
    bytes.push(1);
    bytes.extend((-1_i32).to_be_bytes());
    let mut length = records.len() + 1;
    while length > 127 {
        bytes.push(length as u8 & 127 | 128);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(records);
    bytes.extend([0, 0, 0]);
    bytes
}

fn decode(data: Vec<u8>) -> Vec<Segment> {
    let data = Slice::whole(Arc::new(Buffer::new(data)));
    let batches = Batches::new(&data, &[(4, 0)], 0);
    let mut decoder = batches.open(&OPTIONS).decoder;
    let mut segments = Vec::new();
    while let Some(Ok(segment)) = decoder.next() {
        assert!(segment.columns.data.len() <= OPTIONS.max_decompressed_batch_bytes.max(data.len()));
        segments.push(segment);
    }
    segments
}

fn fetched(frame: Vec<u8>, version: i16) -> Fetched {
    let frame = Arc::new(Buffer::new(frame));
    decode_ahead(&frame, &[], version, &OPTIONS, &Budget::new(1 << 20))
}

/// Accesses everything that a user can access.
fn access(segments: &[Segment]) -> usize {
    let mut bytes = 0;
    for segment in segments {
        let columns = &segment.columns;
        let mut least = i64::MIN;
        for (index, row) in columns.rows.iter().enumerate() {
            assert!(columns.offset(index) > least && columns.offset(index) < segment.next_offset);
            least = columns.offset(index);
            bytes += columns.bytes(row.key).map_or(0, <[u8]>::len);
            bytes += columns.bytes(row.value).map_or(0, <[u8]>::len);
            bytes += columns.headers(index).len();
        }
    }
    bytes
}

fn mutate(mut data: Vec<u8>, changes: &[(u8, usize, Vec<u8>)]) -> Vec<u8> {
    for (kind, place, bytes) in changes {
        let at = place % (data.len() + 1);
        let end = match kind {
            0 => (at + bytes.len()).min(data.len()),
            1 => (at + place % 40).min(data.len()),
            _ => at,
        };
        let new: &[u8] = if *kind == 1 { &[] } else { bytes };
        data.splice(at..end, new.iter().copied());
    }
    data
}

fn changes() -> impl Strategy<Value = Vec<(u8, usize, Vec<u8>)>> {
    let change = (0_u8..3, any::<usize>(), proptest::collection::vec(any::<u8>(), 0..12));
    proptest::collection::vec(change, 1..5)
}

#[test]
fn sound_batches_are_read() {
    for codec in [0, 2, 4] {
        let segments = decode(batch(codec));
        assert_eq!(segments[0].columns.rows.len(), 5);
        assert_eq!(access(&segments), 5 * (3 + 90 + 1));
    }
    let fetched = fetched(response(&batch(0)), 12).unwrap();
    assert_eq!(fetched.partitions[0].batches.as_ref().unwrap().last_offset(), Some(14));
}

#[test]
fn a_batch_that_claims_much_gets_little() {
    let zeros = vec![0; 64 << 20];
    let packed = zstd::encode_all(&zeros[..], 0).unwrap();
    let mut bomb = batch(4);
    bomb.truncate(61);
    bomb.extend(&packed);
    let length = (bomb.len() - 12) as i32;
    bomb[8..12].copy_from_slice(&length.to_be_bytes());
    assert!(decode(bomb).is_empty());
}

/// Use fewer cases with tools that check every access: `PROPTEST_CASES=300 valgrind ...`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn mutated_batches(codec in prop_oneof![Just(0), Just(2), Just(4)], changes in changes()) {
        access(&decode(mutate(batch(codec), &changes)));
    }

    #[test]
    fn mutated_responses(version in 4_i16..19, changes in changes()) {
        let _ = fetched(mutate(response(&batch(0)), &changes), version);
    }

    #[test]
    fn noise(version in 4_i16..19, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        access(&decode(bytes.clone()));
        let _ = fetched(bytes, version);
    }
}
