//! The loop over all connections.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use rustls::ClientConfig;

use crate::pool::PoolWatch;
use crate::wake::{TOKEN, Wake};

use super::channel::{Channel, Event, Receiving};
use super::expected::{Kind, RequestHeader};
use super::failure::{Failure, reason};
use super::heartbeat::Response;
use super::keepalive::KeepAlive;
use super::socket::{self, SocketOptions};
use super::tls::session::Session;

const SCRATCH_BYTES: usize = 64 * 1024;
const EVENTS_AT_ONCE: usize = 256;

/// The settings of the consumer; only `tls` changes during its lifetime.
pub struct Settings {
    pub receive_message_max_bytes: usize,
    pub receive_budget_bytes: usize,
    pub socket: SocketOptions,
    pub tls: Option<Arc<ClientConfig>>,
}

/// All connections; used under a lock, by one thread at a time.
pub struct Engine {
    settings: Settings,
    poll: Poll,
    waker: Arc<Waker>,
    events: Events,
    channels: HashMap<usize, Channel>,
    last_number: usize,
    scratch: Box<[MaybeUninit<u8>]>,
    /// Events that occurred outside `poll`.
    undelivered: Vec<Event>,
    /// Connections with pending work that no further edge will report.
    ready: VecDeque<usize>,
    keepalive: Option<KeepAlive>,
    pool: PoolWatch,
    /// The correlation id of the last heartbeat sent here: negative, unlike Python's.
    last_beat: i32,
    /// The number of system polls; tests use it to detect busy loops.
    pub turns: u64,
    /// The number of heartbeats sent on behalf of Python.
    pub beats: u64,
}

impl Engine {
    pub fn new(settings: Settings) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), TOKEN)?);
        Ok(Engine {
            settings,
            poll,
            waker,
            events: Events::with_capacity(EVENTS_AT_ONCE),
            channels: HashMap::new(),
            last_number: 0,
            scratch: Box::new_uninit_slice(SCRATCH_BYTES),
            undelivered: Vec::new(),
            ready: VecDeque::new(),
            keepalive: None,
            pool: PoolWatch::new(),
            last_beat: 0,
            turns: 0,
            beats: 0,
        })
    }

    /// Returns the waker for this engine's `poll`.
    pub fn waker(&self) -> Weak<Waker> {
        Arc::downgrade(&self.waker)
    }

    /// Uses another configuration for new connections; existing connections keep theirs.
    pub fn set_tls(&mut self, tls: Arc<ClientConfig>) {
        self.settings.tls = Some(tls);
    }

    /// Starts a connection and returns its number; `poll` reports failures.
    pub fn connect(&mut self, host: &str, ip: &str, port: i64, location: String) -> usize {
        self.last_number += 1;
        let number = self.last_number;
        match self.begin(number, host, ip, port, location) {
            Ok(channel) => {
                self.channels.insert(number, channel);
            }
            Err(failure) => self.undelivered.push(Event::Closed { connection: number, failure }),
        }
        number
    }

    fn begin(
        &self,
        number: usize,
        host: &str,
        ip: &str,
        port: i64,
        location: String,
    ) -> Result<Channel, Failure> {
        let tls = match &self.settings.tls {
            Some(config) => {
                let session = Session::new(config, host);
                Some(session.map_err(|problem| problem.into_failure(&location, false, false))?)
            }
            None => None,
        };
        let limit = self.settings.receive_message_max_bytes;
        socket::open(ip, port, &self.settings.socket)
            .and_then(|mut stream| {
                let both = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(&mut stream, Token(number), both)?;
                Ok(stream)
            })
            .map_err(|error| {
                Failure::Lost(format!("cannot connect to {location}: {}", reason(&error)))
            })
            .map(|stream| Channel::new(number, location, stream, limit, tls))
    }

    /// Queues a frame for the next poll. Invariant: no system call here, with the GIL held. It may
    /// wake a local broker, which then takes the processor; the application would wait for both.
    pub fn send(&mut self, connection: usize, frame: Vec<u8>) {
        // Invariant: any request of Python about its membership ends the copy of an earlier state.
        if RequestHeader::of(&frame).is_some_and(|header| header.ends_keepalive()) {
            self.keepalive = None;
        }
        if let Some(channel) = self.channels.get_mut(&connection) {
            channel.queue(frame);
            if !self.ready.contains(&connection) {
                self.ready.push_back(connection);
            }
        }
    }

    /// Sends a frame as far as the socket accepts it, without the GIL.
    pub fn send_now(&mut self, connection: usize, frame: Vec<u8>) {
        if let Some(channel) = self.channels.get_mut(&connection) {
            channel.queue(frame);
            channel.flush();
            // The next poll reports an error. After a full socket, there will be an edge.
            if channel.is_unsendable() && !self.ready.contains(&connection) {
                self.ready.push_back(connection);
            }
        }
    }

    /// Sends the queued frames as far as the sockets accept them.
    pub fn flush(&mut self) {
        self.channels.values_mut().filter(|channel| channel.is_open()).for_each(Channel::flush);
    }

    /// Sends and receives until an event occurs, `wake` or `nudge` is called, or the timeout
    /// expires. Returns whether `wake` was called.
    pub fn poll(&mut self, timeout: Duration, wake: &Wake) -> io::Result<(Vec<Event>, bool)> {
        let deadline = Instant::now() + timeout;
        self.pool.drop_if_unused();
        let mut out = std::mem::take(&mut self.undelivered);
        wake.begin();
        let outcome = loop {
            let at_once = !out.is_empty() || !self.ready.is_empty() || wake.ends_wait();
            let remaining = deadline.saturating_duration_since(Instant::now());
            if let Err(error) =
                self.turn(if at_once { Duration::ZERO } else { remaining }, &mut out)
            {
                break Err(error);
            }
            if !out.is_empty() || wake.ends_wait() || Instant::now() >= deadline {
                break Ok(());
            }
        };
        let woken = wake.end();
        match outcome {
            Ok(()) => Ok((out, woken)),
            Err(error) => {
                self.undelivered = out;
                Err(error)
            }
        }
    }

    fn turn(&mut self, timeout: Duration, out: &mut Vec<Event>) -> io::Result<()> {
        self.turns += 1;
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        for event in &self.events {
            let Some(channel) = self.channels.get_mut(&event.token().0) else {
                continue;
            };
            let failed = event.is_error();
            channel.readable |= event.is_readable() || event.is_read_closed() || failed;
            channel.writable |= event.is_writable() || event.is_write_closed() || failed;
            channel.read_closed |= event.is_read_closed() || failed;
            self.ready.push_back(channel.number);
        }
        // Connections that are not finished now are served last in the next iteration.
        for _ in 0..self.ready.len() {
            if let Some(number) = self.ready.pop_front() {
                self.advance(number, out);
            }
        }
        Ok(())
    }

    fn advance(&mut self, number: usize, out: &mut Vec<Event>) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let told_before = out.len();
        let mut receiving = Receiving {
            scratch: &mut self.scratch,
            budget: self.settings.receive_budget_bytes,
            limit: self.settings.receive_message_max_bytes,
        };
        let outcome = channel.advance(&mut receiving, out);
        self.observe(told_before, out);
        match outcome {
            Ok(()) => {
                let Some(channel) = self.channels.get(&number) else { return };
                if channel.readable && !self.ready.contains(&number) {
                    self.ready.push_back(number);
                }
            }
            Err(failure) => {
                self.disconnect(number);
                out.push(Event::Closed { connection: number, failure });
            }
        }
    }

    /// The number of bytes received on a connection, including incomplete frames.
    pub fn received_bytes(&self, connection: usize) -> u64 {
        self.channels.get(&connection).map_or(0, |channel| channel.received_bytes)
    }

    /// Closes a connection at once; no event follows.
    pub fn disconnect(&mut self, connection: usize) {
        if let Some(mut channel) = self.channels.remove(&connection) {
            let _ = self.poll.registry().deregister(&mut channel.stream); // closing also deregisters
        }
        self.ready.retain(|&number| number != connection);
        self.keepalive.take_if(|keepalive| keepalive.connection == connection);
        self.undelivered.retain(|event| match event {
            Event::Opened { connection: number }
            | Event::Frame { connection: number, .. }
            | Event::Closed { connection: number, .. } => *number != connection,
        });
    }

    // Keepalive.

    /// Registers a heartbeat to send if Python does not return in time; returns when it is due.
    pub fn keep_alive(
        &mut self,
        connection: usize,
        frame: Vec<u8>,
        period: Duration,
        remaining: Duration,
    ) -> Option<Instant> {
        let now = Instant::now();
        self.keepalive = self
            .channels
            .contains_key(&connection)
            .then(|| KeepAlive::new(connection, frame, period, remaining, now))
            .flatten();
        self.keepalive.as_ref().map(|keepalive| now + keepalive.period() + keepalive.grace())
    }

    /// Sends the heartbeat if Python has been away for too long; returns when to check again.
    pub fn beat(&mut self, now: Instant, touched: Instant) -> Option<Instant> {
        let keepalive = self.keepalive.as_ref()?;
        let missed = touched + keepalive.grace();
        if now < missed {
            return Some(missed);
        }
        let connection = keepalive.connection;
        // Unread responses may end the membership, or change its epoch.
        let mut out = std::mem::take(&mut self.undelivered);
        if let Some(channel) = self.channels.get_mut(&connection) {
            channel.readable = true;
        }
        self.advance(connection, &mut out);
        self.undelivered = out;
        self.keepalive.take_if(|keepalive| keepalive.is_over(now));
        let keepalive = self.keepalive.as_ref()?;
        let channel = self.channels.get_mut(&connection)?;
        // Invariant: nothing is sent while a response is due, which may bring a new epoch. A
        // heartbeat with an old one would have the member fenced.
        if channel.is_open() && !channel.expected.awaits_heartbeat() {
            let correlation_id = self.last_beat.checked_sub(1).unwrap_or(-1);
            if let Some(frame) = keepalive.request(correlation_id) {
                self.last_beat = correlation_id;
                channel.expected.record_heartbeat(keepalive.header, correlation_id);
                channel.send_untracked(frame);
                self.beats += 1;
            }
        }
        Some(now + keepalive.period())
    }

    /// Processes heartbeat responses; those without news for Python are dropped.
    fn observe(&mut self, from: usize, out: &mut Vec<Event>) {
        let mut index = from;
        while index < out.len() {
            let reported = match &out[index] {
                Event::Frame {
                    frame, kind: Some(Kind::Heartbeat { api_key, version }), ..
                } => {
                    self.apply(Response::of(&frame.bytes, *api_key, *version));
                    true
                }
                Event::Frame { frame, kind: Some(Kind::Beat { api_key, version }), .. } => {
                    self.apply(Response::of(&frame.bytes, *api_key, *version))
                }
                _ => true,
            };
            if reported {
                index += 1;
            } else {
                out.remove(index);
            }
        }
    }

    /// Invariant: the copy follows the epoch in every response, also to heartbeats of Python.
    fn apply(&mut self, response: Option<Response>) -> bool {
        let Some(response) = response.filter(|response| !response.ends_membership()) else {
            self.keepalive = None;
            return true;
        };
        match &mut self.keepalive {
            Some(keepalive) => keepalive.observe(&response),
            None => response.error_code != 0 || response.member.is_some(),
        }
    }
}
