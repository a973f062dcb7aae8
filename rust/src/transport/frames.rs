//! Bytes to frames: the twin of `tandem_kafka/network/frames.py`.

use std::mem::MaybeUninit;

use crate::buffer;

/// How far memory for a frame runs ahead of what of it has come: a length is only a claim.
const AHEAD_BYTES: usize = 16 * 1024 * 1024;

/// A length that is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inadmissible {
    Negative(i32),
    TooLarge(usize),
}

/// A frame of which a part has come.
struct Begun {
    bytes: Vec<u8>,
    size: usize,
}

/// Cuts one connection's bytes into frames; no input or output.
///
/// Between frames bytes come through `push`, many small frames at once; the rest of a large frame
/// may be received straight into `room`.
pub struct FrameReader {
    limit: usize,
    head: [u8; 4],
    head_length: usize,
    begun: Option<Begun>,
}

impl FrameReader {
    pub fn new(limit: usize) -> Self {
        FrameReader { limit, head: [0; 4], head_length: 0, begun: None }
    }

    /// Where the next bytes of a frame that has begun belong; empty between frames.
    pub fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        let Some(Begun { bytes, size }) = &mut self.begun else {
            return &mut [];
        };
        let missing = *size - bytes.len();
        if bytes.len() == bytes.capacity() {
            bytes.reserve_exact(missing.min(bytes.len().max(AHEAD_BYTES)));
        }
        let spare = bytes.spare_capacity_mut();
        let count = spare.len().min(missing);
        &mut spare[..count]
    }

    /// Takes note of `count` bytes put into `room`.
    ///
    /// # Safety
    /// That many bytes from the beginning of `room` have been written.
    pub unsafe fn filled(&mut self, count: usize, frames: &mut Vec<Vec<u8>>) {
        let Some(begun) = &mut self.begun else { return };
        // SAFETY: the caller has written them, and `room` gave no more than the capacity.
        unsafe { begun.bytes.set_len(begun.bytes.len() + count) };
        self.finish(frames);
    }

    /// Takes bytes from elsewhere. An inadmissible length is told after the frames before it.
    pub fn push(&mut self, mut data: &[u8], frames: &mut Vec<Vec<u8>>) -> Result<(), Inadmissible> {
        while !data.is_empty() {
            if self.begun.is_none() {
                let count = data.len().min(4 - self.head_length);
                let (head, rest) = data.split_at(count);
                self.head[self.head_length..self.head_length + count].copy_from_slice(head);
                self.head_length += count;
                data = rest;
                if self.head_length < 4 {
                    break;
                }
                self.head_length = 0;
                let size = self.admissible(i32::from_be_bytes(self.head))?;
                let bytes = buffer::claim(size.min(AHEAD_BYTES));
                self.begun = Some(Begun { bytes, size });
            }
            if let Some(Begun { bytes, size }) = &mut self.begun {
                let (body, rest) = data.split_at(data.len().min(*size - bytes.len()));
                bytes.extend_from_slice(body);
                data = rest;
            }
            self.finish(frames);
        }
        Ok(())
    }

    fn admissible(&self, size: i32) -> Result<usize, Inadmissible> {
        let size = usize::try_from(size).map_err(|_| Inadmissible::Negative(size))?;
        if size > self.limit { Err(Inadmissible::TooLarge(size)) } else { Ok(size) }
    }

    fn finish(&mut self, frames: &mut Vec<Vec<u8>>) {
        if let Some(begun) = self.begun.take_if(|begun| begun.bytes.len() == begun.size) {
            frames.push(begun.bytes);
        }
    }
}

impl Inadmissible {
    /// Says what came from where; `limit` is the option that was exceeded.
    pub fn describe(self, location: &str, limit: usize) -> String {
        match self {
            Inadmissible::Negative(size) => format!(
                "{location} sent a frame of negative size {size}: not a Kafka broker, \
                 or a port with TLS"
            ),
            Inadmissible::TooLarge(size) => format!(
                "{location} sent a frame of {size} bytes, more than the {limit} of \
                 receive_message_max_bytes (is it a Kafka broker? is it a port with TLS?)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(payloads: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for payload in payloads {
            out.extend_from_slice(&(payload.len() as i32).to_be_bytes());
            out.extend_from_slice(payload);
        }
        out
    }

    /// Feeds by `push` and, inside frames, by `room`, in pieces of `step`.
    fn feed(reader: &mut FrameReader, data: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut rest = data;
        while !rest.is_empty() {
            let room = reader.room();
            let mut count = step.min(rest.len());
            if room.is_empty() {
                reader.push(&rest[..count], &mut frames).unwrap();
            } else {
                count = count.min(room.len());
                for (to, from) in room.iter_mut().zip(&rest[..count]) {
                    to.write(*from);
                }
                // SAFETY: written in the lines above.
                unsafe { reader.filled(count, &mut frames) };
            }
            rest = &rest[count..];
        }
        frames
    }

    #[test]
    fn frames_survive_any_cutting() {
        let payloads: &[&[u8]] = &[b"", b"one", &[7; 300], b"", &[9; 5], b"end"];
        let data = framed(payloads);
        for step in 1..data.len() {
            let mut reader = FrameReader::new(1000);
            assert_eq!(feed(&mut reader, &data, step), payloads, "in steps of {step}");
        }
    }

    #[test]
    fn a_bad_length_comes_after_the_good_frames() {
        let mut reader = FrameReader::new(10);
        let mut frames = Vec::new();
        let mut data = framed(&[b"good"]);
        data.extend_from_slice(&11_i32.to_be_bytes());
        assert_eq!(reader.push(&data, &mut frames), Err(Inadmissible::TooLarge(11)));
        assert_eq!(frames, [b"good"]);
        let mut reader = FrameReader::new(10);
        let outcome = reader.push(&(-2_i32).to_be_bytes(), &mut frames);
        assert_eq!(outcome, Err(Inadmissible::Negative(-2)));
    }

    #[test]
    fn a_claimed_length_costs_nothing_until_bytes_come() {
        let mut reader = FrameReader::new(i32::MAX as usize);
        let mut frames = Vec::new();
        reader.push(&i32::MAX.to_be_bytes(), &mut frames).unwrap();
        assert!(reader.room().len() <= 2 * AHEAD_BYTES);
        assert!(frames.is_empty());
    }

    #[test]
    fn a_frame_larger_than_what_is_claimed_ahead_is_whole() {
        let payload: Vec<u8> = (0..AHEAD_BYTES * 2 + 12345).map(|n| (n % 251) as u8).collect();
        let mut reader = FrameReader::new(i32::MAX as usize);
        let frames = feed(&mut reader, &framed(&[&payload]), 1 << 20);
        assert!(frames == [payload]);
    }
}
