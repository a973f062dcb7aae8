//! The fields of a fetch response, versions 4 to 18.

use crate::batches::Batches;
use crate::fetch::cursor::{Cursor, Read};

const MIN_VERSION: i16 = 4;
const MAX_VERSION: i16 = 18;
const LOG_START_FROM: i16 = 5;
const SESSIONS_FROM: i16 = 7;
const PREFERRED_REPLICA_FROM: i16 = 11;
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

/// A topic goes by name, and by id from version 13 on.
#[derive(Clone)]
pub enum Topic {
    Name(String),
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
    pub batches: Option<Batches>,
}

/// A broker, as a response names those that became leaders (KIP-951).
pub struct NodeEndpoint {
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

pub fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Response> {
    if !(MIN_VERSION..=MAX_VERSION).contains(&version) {
        return Err(format!("version {version} is not supported"));
    }
    let throttle_time_ms = cursor.int32()?;
    let (mut error_code, mut session_id) = (0, 0);
    if version >= SESSIONS_FROM {
        error_code = cursor.int16()?;
        session_id = cursor.int32()?;
    }
    let topics = cursor.array(|cursor| read_topic(cursor, version))?;
    let mut nodes = Vec::new();
    cursor.tags(|tag, inner| {
        if tag == NODE_ENDPOINTS_TAG {
            nodes = inner.array(read_endpoint)?;
        }
        Ok(())
    })?;
    let partitions = topics.into_iter().flatten().collect();
    Ok(Response { throttle_time_ms, error_code, session_id, partitions, nodes })
}

fn read_topic(cursor: &mut Cursor<'_>, version: i16) -> Read<Vec<Partition>> {
    let topic = if version >= TOPIC_IDS_FROM {
        Topic::Id(cursor.uuid()?)
    } else {
        Topic::Name(cursor.string()?)
    };
    let partitions = cursor.array(|cursor| read_partition(cursor, version, &topic))?;
    cursor.skip_tags()?;
    Ok(partitions)
}

fn read_partition(cursor: &mut Cursor<'_>, version: i16, topic: &Topic) -> Read<Partition> {
    let partition = cursor.int32()?;
    let error_code = cursor.int16()?;
    let high_watermark = cursor.int64()?;
    let last_stable_offset = cursor.int64()?;
    let log_start_offset = if version >= LOG_START_FROM { cursor.int64()? } else { -1 };
    let aborted = cursor.nullable_array(|cursor| {
        let pair = (cursor.int64()?, cursor.int64()?);
        cursor.skip_tags()?;
        Ok(pair)
    })?;
    let preferred_read_replica =
        if version >= PREFERRED_REPLICA_FROM { cursor.int32()? } else { -1 };
    let records = cursor.bytes()?;
    let (mut current_leader, mut diverging_epoch) = (None, None);
    cursor.tags(|tag, inner| {
        // The protocol's default of both, -1, says that there is nothing to say.
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
    let batches = records.map(|(from, to)| Batches::new(cursor.frame.clone(), from, to, &aborted));
    Ok(Partition {
        topic: topic.clone(),
        partition,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred_read_replica,
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
