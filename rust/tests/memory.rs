//! The memory of the record path: its counters match its allocations, and limits hold.

mod encoding;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use _native::batches::{Batches, Budget, Segment};
use _native::buffer::{Buffer, Slice};
use _native::fetch::{Block, Fetched, decode_frame};
use _native::options::DecodeOptions;
use encoding::varint;

const MIB: usize = 1 << 20;

/// Counts the current and the maximum allocation of the running thread.
struct Counting;

thread_local! {
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

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

fn count(change: isize) {
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + change, most.max(now + change)));
    });
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of `make`, the bytes that it keeps, and its maximum allocation.
fn measured<T>(make: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let made = make();
    let (now, most) = HELD.get();
    (made, (now - before) as usize, (most - before) as usize)
}

fn options(max_decompressed_batch_bytes: usize) -> DecodeOptions {
    DecodeOptions {
        read_committed: false,
        check_crcs: false,
        max_decompressed_batch_bytes,
        max_record_headers: 100,
    }
}

/// Records with values of the given numbers of zeros.
fn records(values: &[usize]) -> Vec<u8> {
    let mut all = Vec::new();
    for (index, size) in values.iter().enumerate() {
        let mut body = vec![0, 0];
        varint(index as i64, &mut body);
        body.push(1);
        varint(*size as i64, &mut body);
        body.resize(body.len() + size, 0);
        body.push(0);
        varint(body.len() as i64, &mut all);
        all.extend(body);
    }
    all
}

fn batch(base_offset: i64, codec: i16, count: usize, payload: &[u8]) -> Vec<u8> {
    encoding::batch(base_offset, codec, 0, count, payload)
}

fn compressed(codec: i16, data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    match codec {
        1 => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        2 => snap::raw::Encoder::new().compress_vec(data).unwrap(),
        3 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        _ => zstd::encode_all(data, 0).unwrap(),
    }
}

fn sealed(data: Vec<u8>) -> Slice {
    Slice::whole(Arc::new(Buffer::new(data)))
}

fn all(batches: &Batches, options: &DecodeOptions) -> Vec<Segment> {
    let mut decoder = batches.open(options).decoder;
    std::iter::from_fn(|| decoder.next().map(|next| next.map_err(|_| ()).unwrap())).collect()
}

fn counted(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.rows_bytes() + segment.unpacked_bytes).sum()
}

#[test]
fn batches_of_one_record_share_their_columns() {
    let one = records(&[100]);
    let data: Vec<u8> = (0..20_000).flat_map(|offset| batch(offset, 0, 1, &one)).collect();
    let wire = data.len();
    let (batches, kept, _) = measured(|| Batches::new(&sealed(data), &[], 0));
    assert!(kept < 1000, "walking over {wire} bytes keeps {kept}");
    let options = options(MIB);
    let (segments, kept, _) = measured(|| all(&batches, &options));
    assert_eq!(segments.iter().map(|segment| segment.columns.rows.len()).sum::<usize>(), 20_000);
    assert!(kept < wire / 4, "{kept} bytes beside {wire}");
    let counted = counted(&segments);
    assert!(kept <= counted + counted / 4 && counted <= 2 * kept, "{counted} stand for {kept}");
}

#[test]
fn small_compressed_batches_count_what_they_have() {
    for (codec, values) in [(4, 1), (4, 20), (2, 1), (1, 20), (3, 1)] {
        let packed = compressed(codec, &records(&vec![100; values]));
        let one = batch(0, codec, values, &packed);
        let data: Vec<u8> = (0..2_000)
            .flat_map(|n| {
                let mut next = one.clone();
                next[..8].copy_from_slice(&(n * values as i64).to_be_bytes());
                next
            })
            .collect();
        let batches = Batches::new(&sealed(data), &[], 0);
        all(&batches, &options(MIB)); // allocates contexts, which are kept
        let (segments, kept, _) = measured(|| all(&batches, &options(MIB)));
        let counted = counted(&segments);
        assert!(kept <= counted + counted / 4, "codec {codec}: {counted} stand for {kept}");
    }
}

#[test]
fn a_batch_that_decompresses_to_too_much_takes_no_more_than_allowed() {
    let zeros = records(&[200 * MIB]);
    for codec in [1, 3, 4] {
        let data = batch(0, codec, 1, &compressed(codec, &zeros));
        let batches = Batches::new(&sealed(data), &[], 0);
        for limit in [MIB, 10 * MIB, 64 * MIB] {
            let mut decoder = batches.open(&options(limit)).decoder;
            let (outcome, _, most) = measured(|| decoder.next());
            assert!(matches!(outcome, Some(Err(_))));
            // LZ4 allocates two blocks of 4 MiB.
            assert!(most <= limit + 9 * MIB, "codec {codec}: {most} of {limit}");
        }
    }
}

#[test]
fn a_batch_as_large_as_allowed_takes_no_more_than_that() {
    for codec in [1, 2, 3, 4] {
        let zeros = records(&[20 * MIB]);
        let limit = zeros.len();
        let data = batch(0, codec, 1, &compressed(codec, &zeros));
        let batches = Batches::new(&sealed(data), &[], 0);
        let (segments, kept, most) = measured(|| all(&batches, &options(limit)));
        assert!(counted(&segments) >= limit);
        assert!(kept <= limit + limit / 4, "codec {codec}: {kept} of {limit}");
        assert!(most <= limit + limit / 4 + 9 * MIB, "codec {codec}: {most} of {limit}");
    }
}

#[test]
fn records_that_cost_more_than_their_bytes_are_decoded_in_parts() {
    let many = records(&vec![0; 1_000_000]);
    let data = batch(0, 4, 1_000_000, &compressed(4, &many));
    let batches = Batches::new(&sealed(data), &[], 0);
    let mut decoder = batches.open(&options(64 * MIB)).decoder;
    let mut found = 0;
    loop {
        let (next, _, most) = measured(|| decoder.next());
        let Some(Ok(segment)) = next else { break };
        assert!(most < many.len() + many.len() / 4 + 4 * MIB, "{most} beside {}", many.len());
        found += segment.columns.rows.len();
    }
    assert_eq!(found, 1_000_000);
}

/// A response of version 12 whose partitions were received into blocks.
fn response(partitions: &[Vec<u8>]) -> (Arc<Buffer>, Vec<Block<Arc<Buffer>>>) {
    let mut bytes = vec![0; 15];
    let mut blocks = Vec::new();
    bytes.extend([2, 2, b't', partitions.len() as u8 + 1]);
    for (number, data) in partitions.iter().enumerate() {
        bytes.extend((number as i32).to_be_bytes());
        bytes.extend([0; 26]);
        bytes.push(1);
        bytes.extend((-1_i32).to_be_bytes());
        let mut length = data.len() + 1;
        while length > 127 {
            bytes.push(length as u8 & 127 | 128);
            length >>= 7;
        }
        bytes.push(length as u8);
        blocks.push(Block { at: bytes.len(), bytes: Arc::new(Buffer::new(data.clone())) });
        bytes.push(0);
    }
    bytes.extend([0, 0]);
    (Arc::new(Buffer::new(bytes)), blocks)
}

#[test]
fn a_response_is_decoded_ahead_within_the_budget_of_its_consumer() {
    let half = compressed(4, &records(&[MIB / 2]));
    let partition: Vec<u8> = (0..20).flat_map(|n| batch(n, 4, 1, &half)).collect();
    let (frame, blocks) = response(&vec![partition; 4]);
    let options = options(64 * MIB);
    for (limit, most_ahead) in [(0, 0), (3 * MIB, 3 * MIB), (1 << 40, 32 * MIB)] {
        let budget = Budget::new(limit);
        let decode = || decode_ahead(&frame, &blocks, 12, &options, &budget).unwrap();
        let (first, kept, _) = measured(decode);
        assert!(kept <= most_ahead + MIB, "{kept} of {limit}");
        assert!(kept + MIB >= most_ahead.min(32 * MIB), "{kept} of {limit}");
        let (second, kept, _) = measured(decode);
        let remaining = limit.saturating_sub(most_ahead).min(32 * MIB);
        assert!(kept <= remaining + MIB, "{kept} of {remaining}");
        drop((first, second));
        assert_eq!(budget.remaining(), limit);
    }
}

#[test]
fn a_large_batch_does_not_use_up_a_budget_that_it_does_not_fit_in() {
    let data = batch(0, 4, 1, &compressed(4, &records(&[30 * MIB])));
    let small = batch(0, 4, 1, &compressed(4, &records(&[1000])));
    let (frame, blocks) = response(&[data, small]);
    let budget = Budget::new(10 * MIB);
    let decode = || decode_ahead(&frame, &blocks, 12, &options(64 * MIB), &budget).unwrap();
    let (response, kept, most) = measured(decode);
    assert!(kept < MIB && most < 15 * MIB, "{kept}, {most} at most");
    let opened: Vec<_> = response
        .partitions
        .iter()
        .map(|partition| partition.batches.as_ref().unwrap().open(&options(64 * MIB)))
        .collect();
    assert_eq!(opened.iter().map(|ahead| ahead.segments.len()).collect::<Vec<_>>(), [0, 1]);
    let mut decoder = opened.into_iter().next().unwrap().decoder;
    assert!(matches!(decoder.next(), Some(Ok(segment)) if segment.columns.rows.len() == 1));
}

#[test]
fn a_partition_that_is_small_beside_its_frame_does_not_keep_it() {
    let small = batch(0, 0, 1, &records(&[100]));
    let large = batch(0, 0, 1, &records(&[MIB]));
    let (mut bytes, mut blocks) = response(&[small.clone(), large]);
    // In one piece, as other transports receive it.
    let mut whole = bytes.to_vec();
    for block in blocks.drain(..).rev() {
        whole.splice(block.at..block.at, block.bytes.iter().copied());
    }
    bytes = Arc::new(Buffer::new(whole));
    let weak = Arc::downgrade(&bytes);
    let (mut response, _, _) =
        measured(|| decode_ahead(&bytes, &[], 12, &options(MIB), &Budget::new(0)).unwrap());
    drop(bytes);
    assert!(weak.upgrade().is_some(), "the large record keeps the frame");
    let first = response.partitions.swap_remove(0).batches.unwrap();
    drop(response);
    assert!(weak.upgrade().is_none());
    assert_eq!((first.held_bytes(), first.last_offset()), (small.len(), Some(0)));
}
