//! Encodes a fetch of a session: the counterpart of wire/fetch_request.py, from version 7 on. And
//! the response that ends a standing fetch whose next fetch was not sent.

use std::collections::HashMap;

/// The first versions with these fields.
const LEADER_EPOCHS: i16 = 9;
const RACKS: i16 = 11;
const FLEXIBLE: i16 = 12;
const TOPIC_IDS: i16 = 13;
const REPLICA_IN_A_TAG: i16 = 15;
/// The first version with sessions, and the last one that is known.
pub const SUPPORTED: std::ops::RangeInclusive<i16> = 7..=18;

const FETCH: i16 = 1;

/// The fields that all repetitions of a fetch have in common.
pub struct Template {
    pub version: i16,
    /// That of Python's request, for all repetitions: only one is in flight on the connection, and
    /// the last response is Python's.
    pub correlation_id: i32,
    /// None is null.
    pub client_id: Option<String>,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub read_committed: bool,
    pub session_id: i32,
    pub rack: String,
}

/// One partition of a request.
pub struct Wanted<'a> {
    pub topic: &'a str,
    pub topic_id: &'a [u8; 16],
    pub partition: i32,
    pub leader_epoch: i32,
    pub offset: i64,
    pub max_bytes: i32,
}

/// Returns the frame, with its length prefix. Topics are in the order of their first partitions.
pub fn frame(template: &Template, session_epoch: i32, wanted: &[Wanted<'_>]) -> Vec<u8> {
    let mut out = Writer { bytes: vec![0; 4], flexible: template.version >= FLEXIBLE };
    out.int16(FETCH);
    out.int16(template.version);
    out.int32(template.correlation_id);
    match &template.client_id {
        Some(text) => {
            out.int16(text.len() as i16);
            out.bytes.extend_from_slice(text.as_bytes());
        }
        None => out.int16(-1),
    }
    out.tags();
    body(&mut out, template, session_epoch, wanted);
    let size = (out.bytes.len() - 4) as u32;
    out.bytes[..4].copy_from_slice(&size.to_be_bytes());
    out.bytes
}

/// Returns a response to the last request, without data and without its length prefix.
pub fn empty_response(template: &Template) -> Vec<u8> {
    let mut out = Writer { bytes: Vec::new(), flexible: template.version >= FLEXIBLE };
    out.int32(template.correlation_id);
    out.tags();
    out.int32(0); // not throttled
    out.int16(0); // no error
    out.int32(template.session_id);
    out.count(0); // no topics
    out.tags();
    out.bytes
}

fn body(out: &mut Writer, template: &Template, session_epoch: i32, wanted: &[Wanted<'_>]) {
    let version = template.version;
    if version < REPLICA_IN_A_TAG {
        out.int32(-1);
    }
    out.int32(template.max_wait_ms);
    out.int32(template.min_bytes);
    out.int32(template.max_bytes);
    out.bytes.push(u8::from(template.read_committed));
    out.int32(template.session_id);
    out.int32(session_epoch);
    let mut topics: Vec<(&Wanted<'_>, Vec<&Wanted<'_>>)> = Vec::new();
    let mut known: HashMap<(&str, &[u8; 16]), usize> = HashMap::new();
    for each in wanted {
        let index = *known.entry((each.topic, each.topic_id)).or_insert(topics.len());
        match topics.get_mut(index) {
            Some((_, partitions)) => partitions.push(each),
            None => topics.push((each, vec![each])),
        }
    }
    out.count(topics.len());
    for (topic, partitions) in topics {
        match version >= TOPIC_IDS {
            true => out.bytes.extend_from_slice(topic.topic_id),
            false => out.text(topic.topic),
        }
        out.count(partitions.len());
        for each in partitions {
            partition(out, version, each);
        }
        out.tags();
    }
    out.count(0); // nothing is forgotten
    if version >= RACKS {
        out.text(&template.rack);
    }
    out.tags();
}

fn partition(out: &mut Writer, version: i16, wanted: &Wanted<'_>) {
    out.int32(wanted.partition);
    if version >= LEADER_EPOCHS {
        out.int32(wanted.leader_epoch);
    }
    out.int64(wanted.offset);
    if version >= FLEXIBLE {
        out.int32(-1); // the epoch of the last fetch, for followers
    }
    out.int64(-1); // the log start offset, for followers
    out.int32(wanted.max_bytes);
    out.tags();
}

struct Writer {
    bytes: Vec<u8>,
    flexible: bool,
}

impl Writer {
    fn int16(&mut self, value: i16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn int32(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn int64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A count; in flexible versions plus one as a varint.
    fn count(&mut self, count: usize) {
        match self.flexible {
            true => self.varint(count + 1),
            false => self.int32(count as i32),
        }
    }

    fn text(&mut self, text: &str) {
        match self.flexible {
            true => self.varint(text.len() + 1),
            false => self.int16(text.len() as i16),
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn varint(&mut self, mut rest: usize) {
        while rest > 0x7F {
            self.bytes.push(rest as u8 & 0x7F | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    fn tags(&mut self) {
        if self.flexible {
            self.bytes.push(0);
        }
    }
}
