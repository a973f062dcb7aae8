//! One non-blocking connection to a broker, with or without TLS: the counterpart of `channel.py`.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;

use mio::net::TcpStream;

use super::expected::{Expected, Kind, RequestHeader};
use super::failure::{Failure, NO_TLS, reason};
use super::frames::FrameReader;
use super::socket;
use super::tls::session::Session;
use crate::fetch::Received;

/// An event of a connection.
pub enum Event {
    Opened { connection: usize },
    Frame { connection: usize, frame: Received, kind: Option<Kind> },
    Closed { connection: usize, failure: Failure },
}

/// The state that all connections share for receiving.
pub struct Receiving<'a> {
    pub scratch: &'a mut [MaybeUninit<u8>],
    /// Maximum bytes to receive on one connection before the others are served.
    pub budget: usize,
    pub limit: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Handshake,
    Open,
}

/// A connection; `readable` and `writable` are edges that are not used up yet.
pub struct Channel {
    pub number: usize,
    pub stream: TcpStream,
    pub readable: bool,
    pub writable: bool,
    /// The broker has closed its side; its last bytes must still be read.
    pub read_closed: bool,
    pub expected: Expected,
    location: String,
    phase: Phase,
    tls: Option<Session>,
    reader: FrameReader,
    /// Frames to send, and the number of bytes already sent of the first one.
    outgoing: VecDeque<Vec<u8>>,
    sent: usize,
    received: bool,
    /// The number of bytes received, including incomplete frames.
    pub received_bytes: u64,
    /// An error of sending, reported unless the received bytes give a better reason.
    unsendable: Option<Failure>,
}

impl Channel {
    pub fn new(
        number: usize,
        location: String,
        stream: TcpStream,
        limit: usize,
        tls: Option<Session>,
    ) -> Self {
        Channel {
            number,
            stream,
            readable: false,
            writable: false,
            read_closed: false,
            expected: Expected::default(),
            location,
            phase: Phase::Connecting,
            tls,
            reader: FrameReader::new(limit),
            outgoing: VecDeque::new(),
            sent: 0,
            received: false,
            received_bytes: 0,
            unsendable: None,
        }
    }

    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// True after an error of sending that has not been reported.
    pub fn is_unsendable(&self) -> bool {
        self.unsendable.is_some()
    }

    /// Queues a frame, which is sent when the connection advances.
    pub fn queue(&mut self, frame: Vec<u8>) {
        if let Some(header) = RequestHeader::of(&frame) {
            self.expected.note(header);
        }
        if !frame.is_empty() {
            self.outgoing.push_back(frame);
        }
    }

    /// Sends the queued frames and then this one as far as the socket accepts them, and queues the
    /// rest. The caller registers the expected response.
    pub fn send_untracked(&mut self, frame: Vec<u8>) {
        self.outgoing.push_back(frame);
        if self.is_open() {
            self.flush();
        }
    }

    /// Performs the operations for which the socket is ready.
    pub fn advance(
        &mut self,
        receiving: &mut Receiving<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        if self.phase == Phase::Connecting && !self.finish_connect(out)? {
            return Ok(());
        }
        if self.writable {
            self.flush();
        }
        if self.readable || self.unsendable.is_some() {
            match self.tls {
                None => self.receive(receiving, out)?,
                Some(_) => self.receive_tls(receiving, out)?,
            }
        }
        self.unsendable.take().map_or(Ok(()), Err)
    }

    /// True after the TCP connection is established.
    fn finish_connect(&mut self, out: &mut Vec<Event>) -> Result<bool, Failure> {
        let failed = |error: io::Error, location: &str| {
            Failure::Lost(format!("cannot connect to {location}: {}", reason(&error)))
        };
        match self.stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Err(failed(error, &self.location)),
        }
        match self.stream.peer_addr() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotConnected => {
                (self.readable, self.writable) = (false, false);
                return Ok(false);
            }
            Err(error) => return Err(failed(error, &self.location)),
        }
        // The previous edge concerned the connection attempt.
        self.writable = true;
        self.readable = true;
        if self.tls.is_some() {
            self.phase = Phase::Handshake;
        } else {
            self.open(out);
        }
        Ok(true)
    }

    fn open(&mut self, out: &mut Vec<Event>) {
        self.phase = Phase::Open;
        out.push(Event::Opened { connection: self.number });
        self.flush();
    }

    // Sending.

    pub fn flush(&mut self) {
        if self.unsendable.is_some() {
            return;
        }
        let outcome = if self.tls.is_some() { self.flush_tls() } else { self.flush_plain() };
        match outcome {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
            Err(error) => self.unsendable = Some(self.broken(&error)),
        }
    }

    fn flush_plain(&mut self) -> io::Result<()> {
        while let Some(frame) = self.outgoing.front() {
            match self.stream.write(&frame[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.sent == frame.len() {
                self.outgoing.pop_front();
                self.sent = 0;
            }
        }
        Ok(())
    }

    fn flush_tls(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        loop {
            tls.write_to(&mut self.stream)?;
            if self.phase != Phase::Open {
                return Ok(());
            }
            let Some(frame) = self.outgoing.front() else {
                return Ok(());
            };
            self.sent += tls.encrypt(&frame[self.sent..])?;
            if self.sent == frame.len() {
                self.outgoing.pop_front();
                self.sent = 0;
            }
        }
    }

    // Receiving.

    fn receive(
        &mut self,
        receiving: &mut Receiving<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let mut budget = receiving.budget;
        let mut frames = Vec::new();
        loop {
            let room = self.reader.room();
            let ahead = room.len();
            let requested = ahead + receiving.scratch.len();
            let count = match socket::receive(&self.stream, room, receiving.scratch) {
                Ok(Some(count)) => count,
                Ok(None) => {
                    self.readable = false;
                    return Ok(());
                }
                Err(error) => return Err(self.broken(&error)),
            };
            if count == 0 {
                return Err(self.ended());
            }
            self.received = true;
            self.received_bytes += count as u64;
            let direct = count.min(ahead);
            // SAFETY: the system has written `count` bytes, the first ones into `room`.
            unsafe { self.reader.filled(direct, &mut frames) };
            // SAFETY: and the others into the scratch buffer.
            let rest = unsafe { socket::written(receiving.scratch, count - direct) };
            let outcome = self.reader.push(rest, &self.expected, &mut frames);
            self.emit(&mut frames, out);
            if let Err(bad) = outcome {
                return Err(Failure::Frame(bad.describe(&self.location, receiving.limit)));
            }
            // A short read has emptied the socket. The end of the stream does not cause an edge.
            if count < requested && !self.read_closed {
                self.readable = false;
                return Ok(());
            }
            if count >= budget {
                return Ok(());
            }
            budget -= count;
        }
    }

    fn receive_tls(
        &mut self,
        receiving: &mut Receiving<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let mut budget = receiving.budget;
        loop {
            let count = match socket::receive(&self.stream, &mut [], receiving.scratch) {
                Ok(Some(count)) => count,
                Ok(None) => {
                    self.readable = false;
                    return Ok(());
                }
                Err(error) => return Err(self.broken(&error)),
            };
            if count == 0 {
                return Err(self.ended());
            }
            self.received_bytes += count as u64;
            // SAFETY: the system has written this number of bytes.
            let data = unsafe { socket::written(receiving.scratch, count) };
            self.decrypt(data, receiving.limit, out)?;
            self.flush(); // a TLS reply to the received bytes
            if count < receiving.scratch.len() && !self.read_closed {
                self.readable = false;
                return Ok(());
            }
            if count >= budget {
                return Ok(());
            }
            budget -= count;
        }
    }

    fn decrypt(&mut self, data: &[u8], limit: usize, out: &mut Vec<Event>) -> Result<(), Failure> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        let mut frames = Vec::new();
        let mut bad = None;
        let mut any = false;
        let (reader, expected) = (&mut self.reader, &self.expected);
        let outcome = tls.decrypt(data, |plain| {
            any = true;
            if bad.is_none() {
                bad = reader.push(plain, expected, &mut frames).err();
            }
        });
        let handshaking = tls.is_handshaking();
        if outcome.is_err() {
            let _ = tls.write_to(&mut self.stream); // sends the alert; the connection ends in any case
        }
        if !handshaking && self.phase == Phase::Handshake && outcome.is_ok() {
            self.open(out);
        }
        self.received |= any;
        self.emit(&mut frames, out);
        if let Some(bad) = bad {
            return Err(Failure::Frame(bad.describe(&self.location, limit)));
        }
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.ended()),
            Err(error) => {
                Err(error.into_failure(&self.location, self.phase == Phase::Open, self.received))
            }
        }
    }

    fn emit(&mut self, frames: &mut Vec<Received>, out: &mut Vec<Event>) {
        for frame in frames.drain(..) {
            let kind = self.expected.kind_of(&frame.bytes);
            out.push(Event::Frame { connection: self.number, frame, kind });
        }
    }

    // The end.

    fn ended(&self) -> Failure {
        if self.phase == Phase::Handshake {
            return self.cut_in_handshake("end of the stream");
        }
        Failure::Lost(format!("{} closed the connection", self.location))
    }

    fn broken(&self, error: &io::Error) -> Failure {
        if self.phase == Phase::Handshake {
            return self.cut_in_handshake(&reason(error));
        }
        Failure::Lost(format!("lost {}: {}", self.location, reason(error)))
    }

    fn cut_in_handshake(&self, why: &str) -> Failure {
        Failure::Lost(format!(
            "{} closed the connection during the TLS handshake; {NO_TLS}: {why}",
            self.location
        ))
    }
}
