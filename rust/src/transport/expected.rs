//! Which answers are of a kind that this side looks into, seen from the requests sent.

use std::collections::VecDeque;

const LENGTH: usize = 4;
const FETCH: i16 = 1;
const HEARTBEAT: i16 = 12;
const CONSUMER_GROUP_HEARTBEAT: i16 = 68;
const SYNC_GROUP: i16 = 14;
/// JoinGroup, LeaveGroup, SyncGroup: what was true of a member before them may not be after.
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

/// What an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fetch of that version.
    Fetch(i16),
    /// A request of Python's whose answer tells whether the member is one.
    Heartbeat { api_key: i16, version: i16 },
    /// A heartbeat sent here, of which Python knows nothing.
    Beat { api_key: i16, version: i16 },
}

/// The requests of one connection whose answers are looked into, oldest first.
#[derive(Default)]
pub struct Expected(VecDeque<(i32, Kind)>);

impl Expected {
    /// Takes note of a request that Python sends.
    pub fn note(&mut self, header: RequestHeader) {
        if header.api_key == FETCH {
            self.0.push_back((header.correlation_id, Kind::Fetch(header.version)));
        } else if header.is_heartbeat() || header.api_key == SYNC_GROUP {
            let RequestHeader { api_key, version, correlation_id } = header;
            self.0.push_back((correlation_id, Kind::Heartbeat { api_key, version }));
        }
    }

    /// Takes note of a request sent here.
    pub fn note_beat(&mut self, header: RequestHeader, correlation_id: i32) {
        let RequestHeader { api_key, version, .. } = header;
        self.0.push_back((correlation_id, Kind::Beat { api_key, version }));
    }

    /// True while the answer to a heartbeat is still to come.
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

    /// Says what a frame answers, if that is of interest: answers come in the order of requests.
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
    fn answers_are_known_by_the_requests_before_them() {
        let mut expected = Expected::default();
        expected.note(request(1, 17, 5));
        expected.note(request(3, 12, 6));
        expected.note(request(1, 16, 7));
        expected.note_beat(request(12, 4, 0), -1);
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
    fn what_is_too_short_is_nothing() {
        assert_eq!(RequestHeader::of(b"\0\0\0\x01\0"), None);
        let mut expected = Expected::default();
        expected.note(request(1, 17, 5));
        assert_eq!(expected.kind_of(b"\0\0"), None);
    }
}
