//! The heartbeat that is sent while Python cannot run, because the GIL is held for long.
//!
//! It contains no changes: the member's state is that of Python's last request. Responses with news
//! are passed to Python, and applied here as far as further heartbeats need them.

use std::time::{Duration, Instant};

use super::expected::RequestHeader;
use super::heartbeat::{Response, epoch_position};

/// Maximum delay before a heartbeat from Python counts as missed.
const MAX_GRACE: Duration = Duration::from_millis(500);
/// The interval until the coordinator has sent one.
const DEFAULT_PERIOD: Duration = Duration::from_secs(3);
const CORRELATION_AT: usize = 8;

pub struct KeepAlive {
    pub connection: usize,
    pub header: RequestHeader,
    frame: Vec<u8>,
    /// For a KIP-848 member.
    epoch_at: Option<usize>,
    period: Duration,
    until: Instant,
}

impl KeepAlive {
    /// Creates a keepalive that sends `frame` once per `period` for at most `remaining`; None if the frame
    /// is not a heartbeat.
    pub fn new(
        connection: usize,
        frame: Vec<u8>,
        period: Duration,
        remaining: Duration,
        now: Instant,
    ) -> Option<Self> {
        let header = RequestHeader::of(&frame).filter(RequestHeader::is_heartbeat)?;
        let epoch_at = match header.is_of_consumer_protocol() {
            true => Some(epoch_position(&frame)?),
            false => None,
        };
        let period = if period.is_zero() { DEFAULT_PERIOD } else { period };
        Some(KeepAlive { connection, header, frame, epoch_at, period, until: now + remaining })
    }

    /// True if the application has exceeded its poll interval: no further heartbeats are sent.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    pub fn period(&self) -> Duration {
        self.period
    }

    /// The delay after which Python counts as away.
    pub fn grace(&self) -> Duration {
        MAX_GRACE.min(self.period / 2)
    }

    /// The next request; None for a member without a first epoch.
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

    /// Processes a response; true if Python must receive it: a target is sent only once. A signal
    /// to compute an assignment is not passed on, because the coordinator repeats it.
    pub fn observe(&mut self, response: &Response) -> bool {
        let Some((epoch, interval_ms)) = response.member.filter(|_| response.error_code == 0)
        else {
            return response.error_code != 0 || response.member.is_some();
        };
        let changed = self.epoch() != Some(epoch);
        if let Some(at) = self.epoch_at.filter(|_| epoch > 0) {
            self.frame[at..at + 4].copy_from_slice(&epoch.to_be_bytes());
        }
        if let Ok(interval @ 1..) = u64::try_from(interval_ms) {
            self.period = Duration::from_millis(interval);
        }
        changed || response.has_assignment
    }
}
