//! Tracks requests whose responses this side inspects.

use std::collections::VecDeque;

const LENGTH: usize = 4;
const FETCH: i16 = 1;
const HEARTBEAT: i16 = 12;
const CONSUMER_GROUP_HEARTBEAT: i16 = 68;
const SYNC_GROUP: i16 = 14;
/// JoinGroup, LeaveGroup, SyncGroup: they may change the state of a member.
const CHANGE_MEMBERSHIP: [i16; 3] = [11, 13, SYNC_GROUP];

/// The beginning of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub api_key: i16,
    pub version: i16,
    pub correlation_id: i32,
}

impl RequestHeader {
    /// Reads the header of a frame that begins with its length; None if it is too short for one.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let header = frame.get(LENGTH..LENGTH + 8)?;
        Some(RequestHeader {
            api_key: i16::from_be_bytes([header[0], header[1]]),
            version: i16::from_be_bytes([header[2], header[3]]),
            correlation_id: i32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        })
    }

    pub fn is_heartbeat(&self) -> bool {
        matches!(self.api_key, HEARTBEAT | CONSUMER_GROUP_HEARTBEAT)
    }

    pub fn is_of_consumer_protocol(&self) -> bool {
        self.api_key == CONSUMER_GROUP_HEARTBEAT
    }

    pub fn ends_keepalive(&self) -> bool {
        self.is_heartbeat() || CHANGE_MEMBERSHIP.contains(&self.api_key)
    }
}

/// The request of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fetch of that version.
    Fetch(i16),
    /// A request from Python whose response shows whether the membership is valid.
    Heartbeat { api_key: i16, version: i16 },
    /// A heartbeat sent here, without Python.
    Beat { api_key: i16, version: i16 },
}

/// The requests of one connection whose responses are inspected, oldest first.
#[derive(Default)]
pub struct Expected(VecDeque<(i32, Kind)>);

impl Expected {
    /// Records a request from Python.
    pub fn note(&mut self, header: RequestHeader) {
        if header.api_key == FETCH {
            self.0.push_back((header.correlation_id, Kind::Fetch(header.version)));
        } else if header.is_heartbeat() || header.api_key == SYNC_GROUP {
            let RequestHeader { api_key, version, correlation_id } = header;
            self.0.push_back((correlation_id, Kind::Heartbeat { api_key, version }));
        }
    }

    /// Records a heartbeat sent here.
    pub fn record_heartbeat(&mut self, header: RequestHeader, correlation_id: i32) {
        let RequestHeader { api_key, version, .. } = header;
        self.0.push_back((correlation_id, Kind::Beat { api_key, version }));
    }

    /// True while a heartbeat is in flight.
    pub fn awaits_heartbeat(&self) -> bool {
        self.0.iter().any(|(_, kind)| !matches!(kind, Kind::Fetch(_)))
    }

    /// The version of the fetch with that correlation id, if there is one.
    pub fn fetch_version(&self, correlation_id: i32) -> Option<i16> {
        let (_, kind) = self.0.iter().find(|(expected, _)| *expected == correlation_id)?;
        match kind {
            Kind::Fetch(version) => Some(*version),
            _ => None,
        }
    }

    /// Returns the inspected request of a frame, if any: responses arrive in the order of requests.
    pub fn kind_of(&mut self, frame: &[u8]) -> Option<Kind> {
        let first = frame.get(..4)?;
        let correlation_id = i32::from_be_bytes([first[0], first[1], first[2], first[3]]);
        let (expected, kind) = *self.0.front()?;
        if expected != correlation_id {
            return None;
        }
        self.0.pop_front();
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(api_key: i16, version: i16, correlation_id: i32) -> RequestHeader {
        let mut frame = 99_i32.to_be_bytes().to_vec();
        frame.extend_from_slice(&api_key.to_be_bytes());
        frame.extend_from_slice(&version.to_be_bytes());
        frame.extend_from_slice(&correlation_id.to_be_bytes());
        RequestHeader::of(&frame).unwrap()
    }

    #[test]
    fn responses_are_matched_to_requests_in_order() {
        let mut expected = Expected::default();
        expected.note(request(1, 17, 5));
        expected.note(request(3, 12, 6));
        expected.note(request(1, 16, 7));
        expected.record_heartbeat(request(12, 4, 0), -1);
        assert_eq!(expected.kind_of(&5_i32.to_be_bytes()), Some(Kind::Fetch(17)));
        assert_eq!(expected.kind_of(&6_i32.to_be_bytes()), None);
        assert!(expected.awaits_heartbeat());
        assert_eq!(expected.kind_of(&7_i32.to_be_bytes()), Some(Kind::Fetch(16)));
        assert_eq!(
            expected.kind_of(&(-1_i32).to_be_bytes()),
            Some(Kind::Beat { api_key: 12, version: 4 })
        );
        assert_eq!(expected.kind_of(&(-1_i32).to_be_bytes()), None);
        assert!(!expected.awaits_heartbeat());
    }

    #[test]
    fn a_frame_that_is_too_short_has_no_header() {
        assert_eq!(RequestHeader::of(b"\0\0\0\x01\0"), None);
        let mut expected = Expected::default();
        expected.note(request(1, 17, 5));
        assert_eq!(expected.kind_of(b"\0\0"), None);
    }
}
