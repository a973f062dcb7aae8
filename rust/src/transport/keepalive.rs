//! The heartbeat that is sent while Python cannot run, because the GIL is held for long.
//!
//! It says nothing new: the member it speaks for is as Python left it. What its answers say that
//! is new is handed to Python, and followed here as far as further heartbeats need it.

use std::time::{Duration, Instant};

use super::expected::RequestHeader;
use super::heartbeat::{Answer, epoch_position};

/// How long after its time a heartbeat of Python's is missed, at most.
const LONGEST_GRACE: Duration = Duration::from_millis(500);
/// Until the coordinator has said what it wants.
const USUAL_PERIOD: Duration = Duration::from_secs(3);
const CORRELATION_AT: usize = 8;

pub struct KeepAlive {
    pub connection: usize,
    pub header: RequestHeader,
    frame: Vec<u8>,
    /// Of a KIP-848 member.
    epoch_at: Option<usize>,
    period: Duration,
    until: Instant,
}

impl KeepAlive {
    /// Takes a heartbeat to be sent in each `period` for as long as `left`; None for other frames.
    pub fn new(
        connection: usize,
        frame: Vec<u8>,
        period: Duration,
        left: Duration,
        now: Instant,
    ) -> Option<Self> {
        let header = RequestHeader::of(&frame).filter(RequestHeader::is_heartbeat)?;
        let epoch_at = match header.is_of_consumer_protocol() {
            true => Some(epoch_position(&frame)?),
            false => None,
        };
        let period = if period.is_zero() { USUAL_PERIOD } else { period };
        Some(KeepAlive { connection, header, frame, epoch_at, period, until: now + left })
    }

    /// The application has been away for longer than it may: nobody speaks for it any more.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    pub fn period(&self) -> Duration {
        self.period
    }

    /// How late Python may be before it counts as away.
    pub fn grace(&self) -> Duration {
        LONGEST_GRACE.min(self.period / 2)
    }

    /// The next request; nothing for a member that has not got its first epoch yet.
    pub fn request(&self, correlation_id: i32) -> Option<Vec<u8>> {
        if self.epoch() == Some(0) {
            return None;
        }
        let mut frame = self.frame.clone();
        frame[CORRELATION_AT..CORRELATION_AT + 4].copy_from_slice(&correlation_id.to_be_bytes());
        Some(frame)
    }

    fn epoch(&self) -> Option<i32> {
        let bytes = self.frame.get(self.epoch_at?..)?.first_chunk()?;
        Some(i32::from_be_bytes(*bytes))
    }

    /// Takes an answer in; true if it says something that Python must hear of.
    pub fn observe(&mut self, answer: &Answer) -> bool {
        let Some((epoch, interval_ms)) = answer.member.filter(|_| answer.error_code == 0) else {
            return answer.error_code != 0 || answer.member.is_some();
        };
        let changed = self.epoch() != Some(epoch);
        if let Some(at) = self.epoch_at.filter(|_| epoch > 0) {
            self.frame[at..at + 4].copy_from_slice(&epoch.to_be_bytes());
        }
        if let Ok(interval @ 1..) = u64::try_from(interval_ms) {
            self.period = Duration::from_millis(interval);
        }
        changed || answer.has_assignment
    }
}
