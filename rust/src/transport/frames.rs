//! Bytes to frames: the counterpart of `tandem_kafka/network/frames.py`.

use std::mem::MaybeUninit;

use super::expected::Expected;
use super::failure::InvalidLength;
use crate::buffer;
use crate::fetch::{Block, Found, Received, Scan};

/// Maximum memory to reserve beyond the received bytes of a frame: its length is only a claim.
const AHEAD_BYTES: usize = 16 * 1024 * 1024;
/// Step for bytes while searching for records: bytes beyond the next records are copied again.
const STEP_BYTES: usize = 512;
/// Initial memory for a frame of unknown kind, or with blocks: the rest of it is small.
const SMALL_BYTES: usize = 4 * 1024;

/// A buffer that is being filled.
struct Filling {
    bytes: Vec<u8>,
    size: usize,
}

impl Filling {
    fn new(size: usize) -> Self {
        Filling { bytes: buffer::claim(size.min(AHEAD_BYTES)), size }
    }

    fn missing(&self) -> usize {
        self.size - self.bytes.len()
    }

    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        let missing = self.missing();
        if self.bytes.len() == self.bytes.capacity() {
            self.bytes.reserve_exact(missing.min(self.bytes.len().max(AHEAD_BYTES)));
        }
        let spare = self.bytes.spare_capacity_mut();
        let count = spare.len().min(missing);
        &mut spare[..count]
    }

    /// Takes its bytes from the beginning of `data`, and returns the rest.
    fn take<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        let (ours, rest) = data.split_at(data.len().min(self.missing()));
        self.bytes.extend_from_slice(ours);
        rest
    }
}

/// Whether records of a frame get separate buffers.
enum Search {
    /// Not known before the header shows the request of this response.
    Undecided,
    ForRecords(Scan),
    /// The rest of the frame goes into one buffer.
    No,
}

/// A partially received frame.
struct Partial {
    /// The frame without blocks; its size decreases with every block found.
    rest: Filling,
    blocks: Vec<Block<Vec<u8>>>,
    /// The block being filled, and its position.
    block: Option<(usize, Filling)>,
    search: Search,
}

impl Partial {
    fn new(size: usize) -> Self {
        let rest = Filling { bytes: Vec::with_capacity(size.min(SMALL_BYTES)), size };
        Partial { rest, blocks: Vec::new(), block: None, search: Search::Undecided }
    }

    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        match (&mut self.block, &self.search) {
            (Some((_, block)), _) => block.room(),
            (None, Search::No) => self.rest.room(),
            _ => &mut [],
        }
    }

    /// Accounts for `count` bytes written to `room`.
    ///
    /// # Safety
    /// The first `count` bytes of `room` have been written.
    unsafe fn filled(&mut self, count: usize) {
        let filling = match &mut self.block {
            Some((_, block)) => block,
            None => &mut self.rest,
        };
        // SAFETY: the caller has written them, and `room` is no larger than the capacity.
        unsafe { filling.bytes.set_len(filling.bytes.len() + count) };
        self.end_block();
    }

    /// Copies bytes from `data`, and returns those after the frame.
    fn take<'a>(&mut self, mut data: &'a [u8], expected: &Expected) -> &'a [u8] {
        while !data.is_empty() && !self.is_complete() {
            data = match (&mut self.block, &self.search) {
                (Some((_, block)), _) => block.take(data),
                (None, Search::No) => self.rest.take(data),
                _ => self.scan_step(data, expected),
            };
            self.end_block();
        }
        data
    }

    /// Scans further, and begins a block if it finds one.
    fn scan_step<'a>(&mut self, data: &'a [u8], expected: &Expected) -> &'a [u8] {
        let before = self.rest.bytes.len();
        let step = &data[..data.len().min(STEP_BYTES)];
        let taken = step.len() - self.rest.take(step).len();
        if let Search::Undecided = self.search {
            let Some(first) = self.rest.bytes.first_chunk() else { return &data[taken..] };
            let version = expected.fetch_version(i32::from_be_bytes(*first));
            self.search =
                version.map_or(Search::No, |version| Search::ForRecords(Scan::new(version)));
        }
        let found = match &mut self.search {
            Search::ForRecords(scan) => scan.advance(&self.rest.bytes),
            _ => Found::Nothing,
        };
        match found {
            Found::Records { at, length } if length <= self.rest.size - at => {
                self.rest.bytes.truncate(at);
                self.rest.size -= length;
                self.block = Some((at, Filling::new(length)));
                &data[at - before..]
            }
            Found::Incomplete => &data[taken..],
            _ => {
                self.end_search();
                &data[taken..]
            }
        }
    }

    fn end_search(&mut self) {
        self.search = Search::No;
        let missing = self.rest.missing();
        if self.rest.bytes.capacity() < self.rest.bytes.len() + missing {
            let mut larger = buffer::claim(self.rest.size.min(AHEAD_BYTES));
            larger.extend_from_slice(&self.rest.bytes);
            self.rest.bytes = larger;
        }
    }

    fn end_block(&mut self) {
        if let Some((at, block)) = self.block.take_if(|(_, block)| block.missing() == 0) {
            self.blocks.push(Block { at, bytes: block.bytes });
        }
    }

    fn is_complete(&self) -> bool {
        self.block.is_none() && self.rest.missing() == 0
    }
}

/// Splits one connection's bytes into frames, without input or output.
///
/// `push` accepts bytes with many small frames. The rest of a large frame can be received directly
/// into `room`. The records of each partition in a fetch response get a separate buffer, so that
/// they do not keep the memory of the others alive.
pub struct FrameReader {
    limit: usize,
    head: [u8; 4],
    head_length: usize,
    partial: Option<Partial>,
}

impl FrameReader {
    pub fn new(limit: usize) -> Self {
        FrameReader { limit, head: [0; 4], head_length: 0, partial: None }
    }

    /// The memory for the next bytes of a started frame; empty if only `push` can place them.
    pub fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        self.partial.as_mut().map_or(&mut [], Partial::room)
    }

    /// Accounts for `count` bytes written to `room`.
    ///
    /// # Safety
    /// The first `count` bytes of `room` have been written.
    pub unsafe fn filled(&mut self, count: usize, frames: &mut Vec<Received>) {
        if count == 0 {
            return;
        }
        let Some(partial) = &mut self.partial else { return };
        // SAFETY: guaranteed by the caller.
        unsafe { partial.filled(count) };
        self.finish(frames);
    }

    /// Copies bytes from `data`. An invalid length is reported after the frames before it.
    pub fn push(
        &mut self,
        mut data: &[u8],
        expected: &Expected,
        frames: &mut Vec<Received>,
    ) -> Result<(), InvalidLength> {
        while !data.is_empty() {
            if self.partial.is_none() {
                let count = data.len().min(4 - self.head_length);
                let (head, rest) = data.split_at(count);
                self.head[self.head_length..self.head_length + count].copy_from_slice(head);
                self.head_length += count;
                data = rest;
                if self.head_length < 4 {
                    break;
                }
                self.head_length = 0;
                let size = self.checked_size(i32::from_be_bytes(self.head))?;
                self.partial = Some(Partial::new(size));
            }
            if let Some(partial) = &mut self.partial {
                data = partial.take(data, expected);
            }
            self.finish(frames);
        }
        Ok(())
    }

    fn checked_size(&self, size: i32) -> Result<usize, InvalidLength> {
        let size = usize::try_from(size).map_err(|_| InvalidLength::Negative(size))?;
        if size > self.limit { Err(InvalidLength::TooLarge(size)) } else { Ok(size) }
    }

    fn finish(&mut self, frames: &mut Vec<Received>) {
        if let Some(partial) = self.partial.take_if(|partial| partial.is_complete()) {
            frames.push(Received { bytes: partial.rest.bytes, blocks: partial.blocks });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expected::RequestHeader;
    use super::*;

    fn framed(payloads: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for payload in payloads {
            out.extend_from_slice(&(payload.len() as i32).to_be_bytes());
            out.extend_from_slice(payload);
        }
        out
    }

    /// Passes bytes in pieces of `step` through `push` and, inside frames, `room`.
    fn feed(
        reader: &mut FrameReader,
        data: &[u8],
        step: usize,
        expected: &Expected,
    ) -> Vec<Received> {
        let mut frames = Vec::new();
        let mut rest = data;
        while !rest.is_empty() {
            let room = reader.room();
            let mut count = step.min(rest.len());
            if room.is_empty() {
                reader.push(&rest[..count], expected, &mut frames).unwrap();
            } else {
                count = count.min(room.len());
                for (to, from) in room.iter_mut().zip(&rest[..count]) {
                    to.write(*from);
                }
                // SAFETY: the lines above have written them.
                unsafe { reader.filled(count, &mut frames) };
            }
            rest = &rest[count..];
        }
        frames
    }

    fn plain(frames: Vec<Received>) -> Vec<Vec<u8>> {
        assert!(frames.iter().all(|frame| frame.blocks.is_empty()));
        frames.into_iter().map(|frame| frame.bytes).collect()
    }

    /// The original bytes of a frame.
    fn joined(frame: &Received) -> Vec<u8> {
        let (mut bytes, mut from) = (Vec::new(), 0);
        for block in &frame.blocks {
            bytes.extend_from_slice(&frame.bytes[from..block.at]);
            bytes.extend_from_slice(&block.bytes);
            from = block.at;
        }
        bytes.extend_from_slice(&frame.bytes[from..]);
        bytes
    }

    fn expecting_fetch(version: i16, correlation_id: i32) -> Expected {
        let mut expected = Expected::default();
        expected.note(RequestHeader { api_key: 1, version, correlation_id });
        expected
    }

    /// A response of version 12 to request 5, with one topic and records of these lengths.
    fn response(lengths: &[usize]) -> Vec<u8> {
        let mut bytes = 5_i32.to_be_bytes().to_vec();
        bytes.push(0);
        bytes.extend([0; 10]);
        bytes.extend([2, 2, b't', lengths.len() as u8 + 1]);
        for (index, length) in lengths.iter().enumerate() {
            bytes.extend((index as i32).to_be_bytes());
            bytes.extend([0; 26]);
            bytes.push(1);
            bytes.extend((-1_i32).to_be_bytes());
            let mut remaining = length + 1;
            while remaining > 127 {
                bytes.push(remaining as u8 & 127 | 128);
                remaining >>= 7;
            }
            bytes.push(remaining as u8);
            bytes.extend((0..*length).map(|n| (n % 251) as u8));
            bytes.push(0);
        }
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn frames_survive_any_cutting() {
        let payloads: &[&[u8]] = &[b"", b"one", &[7; 300], b"", &[9; 5], b"end"];
        let data = framed(payloads);
        for step in 1..data.len() {
            let mut reader = FrameReader::new(1000);
            let frames = plain(feed(&mut reader, &data, step, &Expected::default()));
            assert_eq!(frames, payloads, "in steps of {step}");
        }
    }

    #[test]
    fn records_of_a_fetch_response_get_buffers_of_their_own_however_it_is_cut() {
        let lengths = [0, 5000, 100, 70_000, 4096, 4095];
        let whole = response(&lengths);
        let data = framed(&[&whole, b"\0\0\0\x06next", &whole]);
        let expected = expecting_fetch(12, 5);
        for step in [1, 2, 3, 7, 100, 511, 512, 513, 4096, 65_536, data.len()] {
            let mut reader = FrameReader::new(1 << 20);
            let frames = feed(&mut reader, &data, step, &expected);
            assert_eq!(frames.len(), 3, "in steps of {step}");
            assert!(frames[1].blocks.is_empty());
            for frame in [&frames[0], &frames[2]] {
                let blocks: Vec<_> = frame.blocks.iter().map(|block| block.bytes.len()).collect();
                assert_eq!(blocks, [5000, 70_000, 4096], "in steps of {step}");
                assert_eq!(joined(frame), whole, "in steps of {step}");
            }
        }
    }

    #[test]
    fn a_response_that_is_none_stays_in_one_piece() {
        let whole = response(&[5000]);
        let mut lying = whole.clone();
        let at = whole.iter().position(|byte| *byte == 0x89).unwrap();
        lying[at..at + 2].copy_from_slice(&[0xFF, 0x7F]); // longer than the frame
        let mut noise = vec![0, 0, 0, 5, 0];
        noise.extend([0xFF; 200_000]);
        for payload in [&lying, &noise] {
            for step in [1, 512, payload.len() + 4] {
                let mut reader = FrameReader::new(1 << 20);
                let frames = feed(&mut reader, &framed(&[payload]), step, &expecting_fetch(12, 5));
                assert!(plain(frames) == [payload.clone()]);
            }
        }
        // Not requested, or of an unknown version.
        for expected in [Expected::default(), expecting_fetch(12, 6), expecting_fetch(99, 5)] {
            let mut reader = FrameReader::new(1 << 20);
            let frames = feed(&mut reader, &framed(&[&whole]), 64, &expected);
            assert!(plain(frames) == [whole.clone()]);
        }
    }

    #[test]
    fn a_bad_length_comes_after_the_good_frames() {
        let expected = Expected::default();
        let mut reader = FrameReader::new(10);
        let mut frames = Vec::new();
        let mut data = framed(&[b"good"]);
        data.extend_from_slice(&11_i32.to_be_bytes());
        let outcome = reader.push(&data, &expected, &mut frames);
        assert_eq!(outcome, Err(InvalidLength::TooLarge(11)));
        assert_eq!(plain(frames), [b"good"]);
        let mut reader = FrameReader::new(10);
        let outcome = reader.push(&(-2_i32).to_be_bytes(), &expected, &mut Vec::new());
        assert_eq!(outcome, Err(InvalidLength::Negative(-2)));
    }

    #[test]
    fn a_claimed_length_costs_nothing_until_bytes_come() {
        let expected = expecting_fetch(12, 5);
        let mut reader = FrameReader::new(i32::MAX as usize);
        let mut frames = Vec::new();
        reader.push(&i32::MAX.to_be_bytes(), &expected, &mut frames).unwrap();
        reader.push(&[9; 8], &expected, &mut frames).unwrap();
        assert!(reader.room().len() <= 2 * AHEAD_BYTES);
        assert!(frames.is_empty());

        let mut response = response(&[0]);
        response.truncate(response.len() - 4); // the length of its records, and all bytes after it
        response.extend([0xFF, 0xFF, 0xFF, 0x7F, 7]);
        let mut reader = FrameReader::new(i32::MAX as usize);
        reader.push(&i32::MAX.to_be_bytes(), &expected, &mut frames).unwrap();
        reader.push(&response, &expected, &mut frames).unwrap();
        let room = reader.room().len();
        assert!(0 < room && room <= 2 * AHEAD_BYTES);
    }

    #[test]
    fn a_frame_larger_than_what_is_claimed_ahead_is_whole() {
        let payload: Vec<u8> = (0..AHEAD_BYTES * 2 + 12345).map(|n| (n % 251) as u8).collect();
        let mut reader = FrameReader::new(i32::MAX as usize);
        let frames = feed(&mut reader, &framed(&[&payload]), 1 << 20, &Expected::default());
        assert!(plain(frames) == [payload]);
        let whole = response(&[AHEAD_BYTES * 2 + 1, 3, AHEAD_BYTES + 7]);
        let expected = expecting_fetch(12, 5);
        let frames = feed(&mut reader, &framed(&[&whole]), 1 << 20, &expected);
        assert_eq!(frames[0].blocks.len(), 2);
        assert!(joined(&frames[0]) == whole);
    }
}
