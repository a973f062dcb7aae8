//! The fields of a fetch response, versions 4 to 18.

use std::sync::Arc;

use crate::batches::{Batches, Budget};
use crate::buffer::{Buffer, Slice};
use crate::fetch::cursor::{Cursor, Read};
use crate::fetch::received::Block;
use crate::options::DecodeOptions;

/// Limit for decoding a response on receipt. Invariant: the rest is decoded when its records are
/// taken. A response that decompresses to gigabytes is never decoded at once.
pub const AHEAD_BYTES: usize = 32 * 1024 * 1024;

const MIN_VERSION: i16 = 4;
const MAX_VERSION: i16 = 18;
const LOG_START_FROM: i16 = 5;
const SESSIONS_FROM: i16 = 7;
const PREFERRED_REPLICA_FROM: i16 = 11;
/// From this version on requests and responses have headers with tagged fields.
const FLEXIBLE_FROM: i16 = 12;
const TOPIC_IDS_FROM: i16 = 13;

const DIVERGING_EPOCH_TAG: usize = 0;
const CURRENT_LEADER_TAG: usize = 1;
const NODE_ENDPOINTS_TAG: usize = 0;

/// A response; the meaning of the fields is that of `FetchedResponse` in records/decoder.py.
pub struct Response {
    pub throttle_time_ms: i32,
    pub error_code: i16,
    pub session_id: i32,
    pub partitions: Vec<Partition>,
    pub nodes: Vec<NodeEndpoint>,
}

impl Response {
    /// Decodes record batches ahead, within the budget.
    pub fn decode_ahead(&mut self, options: &DecodeOptions, budget: &Arc<Budget>) {
        let mut room = AHEAD_BYTES;
        for batches in self.partitions.iter_mut().filter_map(|each| each.batches.as_mut()) {
            batches.decode_ahead(options, &mut room, budget);
        }
    }
}

/// A decoded response, or the reason why it is malformed.
pub type Fetched = Result<Response, String>;

/// The fewest bytes of a topic, a partition, an aborted transaction and a node.
const TOPIC_BYTES: usize = 2;
const PARTITION_BYTES: usize = 24;
const ABORTED_BYTES: usize = 16;
const NODE_BYTES: usize = 10;

/// A topic is identified by name, and from version 13 on by id. Its partitions share the name.
#[derive(Clone)]
pub enum Topic {
    Name(Arc<str>),
    Id([u8; 16]),
}

/// One partition, see `FetchedPartition`.
pub struct Partition {
    pub topic: Topic,
    pub partition: i32,
    pub error_code: i16,
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub log_start_offset: i64,
    pub aborted: Vec<(i64, i64)>,
    pub preferred_read_replica: i32,
    pub current_leader: Option<(i32, i32)>,
    pub diverging_epoch: Option<(i32, i64)>,
    /// Boxed, because most partitions of a large response have none.
    pub batches: Option<Box<Batches>>,
}

/// The address of a broker that became a leader (KIP-951).
pub struct NodeEndpoint {
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

/// The bytes of a response, and the index of the next block.
struct Source<'a> {
    version: i16,
    frame: &'a Arc<Buffer>,
    blocks: &'a [Block<Arc<Buffer>>],
    blocks_used: usize,
}

impl Source<'_> {
    /// Finds the record batches of a partition.
    fn read_records(&mut self, cursor: &mut Cursor<'_>) -> Read<Option<Slice>> {
        let length = cursor.bytes_length()?;
        if length == 0 {
            return Ok(None);
        }
        let at = cursor.position();
        if let Some(block) = self.blocks.get(self.blocks_used)
            && (block.at, block.bytes.len()) == (at, length)
        {
            self.blocks_used += 1;
            return Ok(Some(Slice::whole(block.bytes.clone())));
        }
        cursor.skip(length)?;
        // Small record data must not keep its whole frame alive.
        let slice = Slice::new(self.frame.clone(), at, at + length);
        Ok(Some(if length < self.frame.len() / 2 { slice.copied() } else { slice }))
    }
}

pub fn is_flexible(version: i16) -> bool {
    version >= FLEXIBLE_FROM
}

pub fn skip_response_header(header: &mut Cursor<'_>) -> Read<()> {
    header.skip(4)?;
    header.skip_tags()
}

/// Decodes a frame with its response header, for a fetch of `version`, except the record batches.
pub fn decode_frame(frame: &Arc<Buffer>, blocks: &[Block<Arc<Buffer>>], version: i16) -> Fetched {
    let mut header = Cursor::new(frame, 0, is_flexible(version));
    skip_response_header(&mut header)
        .map_err(|problem| format!("malformed response header: {problem}"))?;
    decode_body(frame, blocks, header.position(), version)
}

/// Decodes the body that begins at `body_at`, except the record batches.
pub fn decode_body(
    frame: &Arc<Buffer>,
    blocks: &[Block<Arc<Buffer>>],
    body_at: usize,
    version: i16,
) -> Fetched {
    let mut cursor = Cursor::new(frame, body_at, is_flexible(version));
    let mut source = Source { version, frame, blocks, blocks_used: 0 };
    let response = read(&mut cursor, &mut source).map_err(|problem| {
        let used = blocks.iter().take(source.blocks_used);
        let before: usize = used.map(|block| block.bytes.len()).sum();
        let at = cursor.position() - body_at + before;
        format!("malformed fetch response v{version} at byte {at}: {problem}")
    })?;
    let remaining = blocks.iter().skip(source.blocks_used).map(|block| block.bytes.len());
    match frame.len() - cursor.position() + remaining.sum::<usize>() {
        0 => Ok(response),
        remaining => {
            Err(format!("malformed fetch response v{version}: {remaining} bytes too many"))
        }
    }
}

pub fn check_version(version: i16) -> Read<()> {
    match (MIN_VERSION..=MAX_VERSION).contains(&version) {
        true => Ok(()),
        false => Err(format!("version {version} is not supported")),
    }
}

/// Reads the fields before the topics: throttle time, error code, session id.
pub fn read_head(cursor: &mut Cursor<'_>, version: i16) -> Read<(i32, i16, i32)> {
    let throttle_time_ms = cursor.int32()?;
    match version >= SESSIONS_FROM {
        true => Ok((throttle_time_ms, cursor.int16()?, cursor.int32()?)),
        false => Ok((throttle_time_ms, 0, 0)),
    }
}

pub fn read_topic_name(cursor: &mut Cursor<'_>, version: i16) -> Read<Topic> {
    match version >= TOPIC_IDS_FROM {
        true => cursor.uuid().map(Topic::Id),
        false => cursor.string().map(|name| Topic::Name(name.into())),
    }
}

/// The fields before the records of a partition.
pub struct PartitionHead {
    partition: i32,
    error_code: i16,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    aborted: Vec<(i64, i64)>,
    preferred_read_replica: i32,
}

pub fn read_partition_head(cursor: &mut Cursor<'_>, version: i16) -> Read<PartitionHead> {
    let partition = cursor.int32()?;
    let error_code = cursor.int16()?;
    let high_watermark = cursor.int64()?;
    let last_stable_offset = cursor.int64()?;
    let log_start_offset = if version >= LOG_START_FROM { cursor.int64()? } else { -1 };
    let aborted = cursor.nullable_array(ABORTED_BYTES, |cursor| {
        let pair = (cursor.int64()?, cursor.int64()?);
        cursor.skip_tags()?;
        Ok(pair)
    })?;
    let preferred_read_replica =
        if version >= PREFERRED_REPLICA_FROM { cursor.int32()? } else { -1 };
    Ok(PartitionHead {
        partition,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred_read_replica,
    })
}

fn read(cursor: &mut Cursor<'_>, source: &mut Source<'_>) -> Read<Response> {
    check_version(source.version)?;
    let (throttle_time_ms, error_code, session_id) = read_head(cursor, source.version)?;
    let mut partitions = Vec::new();
    cursor.array(TOPIC_BYTES, |cursor| read_topic(cursor, source, &mut partitions))?;
    let mut nodes = Vec::new();
    cursor.tags(|tag, inner| {
        if tag == NODE_ENDPOINTS_TAG {
            nodes = inner.array(NODE_BYTES, read_endpoint)?;
        }
        Ok(())
    })?;
    Ok(Response { throttle_time_ms, error_code, session_id, partitions, nodes })
}

fn read_topic(
    cursor: &mut Cursor<'_>,
    source: &mut Source<'_>,
    partitions: &mut Vec<Partition>,
) -> Read<()> {
    let topic = read_topic_name(cursor, source.version)?;
    cursor.array(PARTITION_BYTES, |cursor| {
        partitions.push(read_partition(cursor, source, &topic)?);
        Ok(())
    })?;
    cursor.skip_tags()
}

fn read_partition(
    cursor: &mut Cursor<'_>,
    source: &mut Source<'_>,
    topic: &Topic,
) -> Read<Partition> {
    let head = read_partition_head(cursor, source.version)?;
    let records = source.read_records(cursor)?;
    let (mut current_leader, mut diverging_epoch) = (None, None);
    cursor.tags(|tag, inner| {
        // In the protocol, -1 is the default of both fields and means "none".
        match tag {
            CURRENT_LEADER_TAG => {
                current_leader = Some((inner.int32()?, inner.int32()?)).filter(|(id, _)| *id >= 0);
            }
            DIVERGING_EPOCH_TAG => {
                diverging_epoch =
                    Some((inner.int32()?, inner.int64()?)).filter(|(epoch, _)| *epoch >= 0);
            }
            _ => return Ok(()),
        }
        inner.skip_tags()
    })?;
    let batches =
        records.map(|records| Box::new(Batches::new(&records, &head.aborted, head.high_watermark)));
    Ok(Partition {
        topic: topic.clone(),
        partition: head.partition,
        error_code: head.error_code,
        high_watermark: head.high_watermark,
        last_stable_offset: head.last_stable_offset,
        log_start_offset: head.log_start_offset,
        aborted: head.aborted,
        preferred_read_replica: head.preferred_read_replica,
        current_leader,
        diverging_epoch,
        batches,
    })
}

fn read_endpoint(cursor: &mut Cursor<'_>) -> Read<NodeEndpoint> {
    let endpoint = NodeEndpoint {
        node_id: cursor.int32()?,
        host: cursor.string()?,
        port: cursor.int32()?,
        rack: cursor.nullable_string()?,
    };
    cursor.skip_tags()?;
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_share_the_name_of_their_topic() {
        let (count, name) = (100_u32, [b't'; 30_000]);
        let mut body = [0_u8; 4].to_vec();
        body.extend(1_u32.to_be_bytes());
        body.extend((name.len() as u16).to_be_bytes());
        body.extend(name);
        body.extend(count.to_be_bytes());
        for _ in 0..count {
            body.extend([0; 4 + 2 + 16]);
            body.extend([0xFF; 8]);
        }
        let frame = Arc::new(Buffer::new(body));
        let mut source = Source { version: 4, frame: &frame, blocks: &[], blocks_used: 0 };
        let response = read(&mut Cursor::new(&frame, 0, false), &mut source).unwrap();
        let names: Vec<*const u8> = response
            .partitions
            .iter()
            .map(|partition| match &partition.topic {
                Topic::Name(name) => name.as_ptr(),
                Topic::Id(_) => panic!("a name is expected"),
            })
            .collect();
        assert_eq!(names.len(), 100);
        assert!(names.iter().all(|name| *name == names[0]));
    }
}
