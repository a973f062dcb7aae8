//! Finds the records of a fetch response during its receipt, so that those of each partition get a
//! buffer of their own. Otherwise one slow partition would keep the whole response alive.

use crate::fetch::cursor::{Cursor, Read};
use crate::fetch::response::{
    check_version, is_flexible, read_head, read_partition_head, read_topic_name,
    skip_response_header,
};

/// Records with fewer bytes stay in the frame.
const MIN_BLOCK_BYTES: usize = 4 * 1024;
/// The maximum distance between two blocks; beyond it, the rest of the frame is not searched.
const MAX_DISTANCE: usize = 64 * 1024;

#[derive(Clone, Copy)]
enum Next {
    Head,
    Topic,
    Partition,
    PartitionEnd,
    TopicEnd,
    Nothing,
}

/// The progress of reading a response.
pub struct Scan {
    version: i16,
    at: usize,
    next: Next,
    topics_left: usize,
    partitions_left: usize,
}

/// The next step of the receiver.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// More bytes are needed.
    Incomplete,
    /// After this many bytes of the frame, records of that length follow.
    Records { at: usize, length: usize },
    /// No further records deserve a separate buffer.
    Nothing,
}

impl Scan {
    pub fn new(version: i16) -> Self {
        let next = if check_version(version).is_ok() { Next::Head } else { Next::Nothing };
        Scan { version, at: 0, next, topics_left: 0, partitions_left: 0 }
    }

    /// Continues to read a frame of which `bytes` have arrived. They include the header, but not the
    /// records found earlier.
    pub fn advance(&mut self, bytes: &[u8]) -> Found {
        loop {
            if matches!(self.next, Next::Nothing) {
                return Found::Nothing;
            }
            let mut cursor = Cursor::new(bytes, self.at, is_flexible(self.version));
            match self.step(&mut cursor) {
                Ok(records) => {
                    self.at = cursor.position();
                    if let Some(length) = records {
                        return Found::Records { at: self.at, length };
                    }
                }
                Err(_) if bytes.len() - self.at > MAX_DISTANCE => self.next = Next::Nothing,
                Err(_) => return Found::Incomplete,
            }
        }
    }

    /// Reads one element, and returns the length of the records that follow it. Changes nothing on an
    /// error, which may only mean that bytes are missing.
    fn step(&mut self, cursor: &mut Cursor<'_>) -> Read<Option<usize>> {
        match self.next {
            Next::Head => {
                skip_response_header(cursor)?;
                read_head(cursor, self.version)?;
                self.topics_left = cursor.count()?;
                self.next = Next::Topic;
            }
            Next::Topic if self.topics_left == 0 => self.next = Next::Nothing,
            Next::Topic => {
                read_topic_name(cursor, self.version)?;
                self.partitions_left = cursor.count()?;
                self.next = Next::Partition;
            }
            Next::Partition if self.partitions_left == 0 => self.next = Next::TopicEnd,
            Next::Partition => {
                read_partition_head(cursor, self.version)?;
                let length = cursor.bytes_length()?;
                if length < MIN_BLOCK_BYTES {
                    cursor.skip(length)?;
                }
                self.next = Next::PartitionEnd;
                return Ok(Some(length).filter(|length| *length >= MIN_BLOCK_BYTES));
            }
            Next::PartitionEnd => {
                cursor.skip_tags()?;
                self.partitions_left -= 1;
                self.next = Next::Partition;
            }
            Next::TopicEnd => {
                cursor.skip_tags()?;
                self.topics_left -= 1;
                self.next = Next::Topic;
            }
            Next::Nothing => {}
        }
        Ok(None)
    }
}
