//! The encoding of heartbeats: the epoch in a request, and the fields of a response.

use super::expected::RequestHeader;

/// REBALANCE_IN_PROGRESS: reported to Python. Invariant: heartbeats continue. A classic member that
/// stops would be removed before it could join again.
const REBALANCE_IN_PROGRESS: i16 = 27;
/// The first versions with a throttle time and with tagged fields, in Heartbeat and SyncGroup.
const FIRST_WITH_THROTTLE: i16 = 1;
const FIRST_FLEXIBLE: i16 = 4;

/// The fields of a heartbeat response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub error_code: i16,
    /// For a KIP-848 member: its new epoch and interval.
    pub member: Option<(i32, i32)>,
    pub has_assignment: bool,
}

impl Response {
    /// Reads a response with its header; None if it is malformed.
    pub fn of(frame: &[u8], api_key: i16, version: i16) -> Option<Self> {
        let header = RequestHeader { api_key, version, correlation_id: 0 };
        let mut bytes = Bytes(frame);
        bytes.skip(4)?;
        if header.is_of_consumer_protocol() {
            bytes.tags()?;
            bytes.skip(4)?;
            let error_code = bytes.i16()?;
            bytes.compact_string()?;
            bytes.compact_string()?;
            let member = (bytes.i32()?, bytes.i32()?);
            let has_assignment = bytes.i8()? >= 0;
            return Some(Response { error_code, member: Some(member), has_assignment });
        }
        if version >= FIRST_FLEXIBLE {
            bytes.tags()?;
        }
        if version >= FIRST_WITH_THROTTLE {
            bytes.skip(4)?;
        }
        Some(Response { error_code: bytes.i16()?, member: None, has_assignment: false })
    }

    /// True if a further heartbeat would be wrong or useless.
    pub fn ends_membership(&self) -> bool {
        !matches!(self.error_code, 0 | REBALANCE_IN_PROGRESS)
    }
}

/// The position of the member epoch in a KIP-848 heartbeat with its length prefix.
pub fn epoch_position(frame: &[u8]) -> Option<usize> {
    let mut bytes = Bytes(frame.get(12..)?);
    let client_id = bytes.i16()?;
    bytes.skip(usize::try_from(client_id).unwrap_or(0))?;
    bytes.tags()?;
    bytes.compact_string()?;
    bytes.compact_string()?;
    let position = frame.len() - bytes.0.len();
    bytes.i32().map(|_| position)
}

/// The remaining bytes.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn i8(&mut self) -> Option<i8> {
        self.take().map(i8::from_be_bytes)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        for shift in (0..35).step_by(7) {
            let [byte] = self.take()?;
            value |= usize::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Skips a string whose length plus one is a varint; 0 means null.
    fn compact_string(&mut self) -> Option<()> {
        let length = self.varint()?;
        self.skip(length.saturating_sub(1))
    }

    fn tags(&mut self) -> Option<()> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let size = self.varint()?;
            self.skip(size)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer_response(error_code: i16, epoch: i32, assignment: i8) -> Vec<u8> {
        let mut frame = vec![0, 0, 0, 9, 0, 0, 0, 0, 0];
        frame.extend_from_slice(&error_code.to_be_bytes());
        frame.extend_from_slice(b"\x03no\x03me");
        frame.extend_from_slice(&epoch.to_be_bytes());
        frame.extend_from_slice(&5000_i32.to_be_bytes());
        frame.push(assignment as u8);
        frame.push(0);
        frame
    }

    #[test]
    fn responses_of_both_protocols() {
        let response = Response::of(&consumer_response(0, 7, -1), 68, 1).unwrap();
        assert_eq!(response.member, Some((7, 5000)));
        assert!(!response.has_assignment && !response.ends_membership());
        assert!(Response::of(&consumer_response(0, 7, 1), 68, 1).unwrap().has_assignment);
        assert!(Response::of(&consumer_response(110, 7, -1), 68, 1).unwrap().ends_membership());
        let oldest = Response::of(b"\0\0\0\x01\0\x1b", 12, 0).unwrap();
        assert_eq!((oldest.error_code, oldest.ends_membership()), (27, false));
        let flexible = Response::of(b"\0\0\0\x01\0\0\0\0\0\0\x16\0", 12, 4).unwrap();
        assert_eq!((flexible.error_code, flexible.ends_membership()), (22, true));
    }

    #[test]
    fn malformed_responses_are_none() {
        let whole = consumer_response(0, 7, -1);
        for end in 0..whole.len() - 1 {
            assert_eq!(Response::of(&whole[..end], 68, 1), None, "of {end} bytes");
        }
        assert_eq!(Response::of(b"\0\0\0\x01\xff\xff\xff\xff\xff\xff", 68, 1), None);
    }

    #[test]
    fn the_epoch_is_found() {
        let mut frame = vec![0, 0, 0, 0, 0, 68, 0, 1, 0, 0, 0, 5, 0, 2, b'i', b'd', 0];
        frame.extend_from_slice(b"\x06group\x07member");
        let expected = frame.len();
        frame.extend_from_slice(&3_i32.to_be_bytes());
        frame.push(0);
        assert_eq!(epoch_position(&frame), Some(expected));
        assert_eq!(epoch_position(&frame[..expected + 3]), None);
    }
}
