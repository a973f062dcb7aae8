//! TLS on one connection: encrypts and decrypts its bytes.

use std::io::{self, BufRead, ErrorKind, Write};
use std::sync::Arc;

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, ClientConnection};

use super::problem::Problem;

/// Maximum bytes to encrypt ahead of the socket.
const PENDING_BYTES: usize = 64 * 1024;

pub struct Session(Box<ClientConnection>);

impl Session {
    /// Starts a session with the broker of that name.
    pub fn new(config: &Arc<ClientConfig>, host: &str) -> Result<Self, Problem> {
        let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let name =
            ServerName::try_from(bare.to_owned()).map_err(|error: InvalidDnsNameError| {
                Problem::Name(format!("{bare:?} is not a valid name in a certificate: {error}"))
            })?;
        let mut connection = ClientConnection::new(Arc::clone(config), name)?;
        connection.set_buffer_limit(Some(PENDING_BYTES));
        Ok(Session(Box::new(connection)))
    }

    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Writes the encrypted bytes; `WouldBlock` if the socket is full.
    pub fn write_to(&mut self, stream: &mut dyn Write) -> io::Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Accepts some bytes of `plain`, and returns their number.
    pub fn encrypt(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.0.writer().write(plain)
    }

    /// Passes the received plain text to `sink`; false at the end of the broker's stream.
    pub fn decrypt(&mut self, data: &[u8], mut sink: impl FnMut(&[u8])) -> Result<bool, Problem> {
        let mut rest = data;
        while !rest.is_empty() {
            let taken = self.0.read_tls(&mut rest).map_err(Problem::Io)?;
            let state = self.0.process_new_packets()?;
            let mut waiting = state.plaintext_bytes_to_read();
            while waiting > 0 {
                let mut reader = self.0.reader();
                let plain = reader.fill_buf().map_err(Problem::Io)?;
                let count = plain.len();
                if count == 0 {
                    break;
                }
                sink(plain);
                reader.consume(count);
                waiting = waiting.saturating_sub(count);
            }
            if state.peer_has_closed() || taken == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
