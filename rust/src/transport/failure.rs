//! The reasons for the end of a connection, as error messages.

use std::io;

/// The text of an error, and the Python exception for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `KafkaConnectionError`: refused, closed or reset.
    Lost(String),
    /// `TlsAuthenticationError`: a TLS check failed, here or at the broker.
    Tls(String),
    /// Also a `TlsAuthenticationError`, unless OpenSSL supports what rustls does not.
    Unsupported(String),
    /// `InvalidReceiveError`: the length of a frame is invalid.
    Frame(String),
}

/// An invalid frame length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidLength {
    Negative(i32),
    TooLarge(usize),
}

/// What to do if the broker does not understand TLS.
pub const NO_TLS: &str = "if this port has no TLS, use another port or correct security_protocol";

/// The first two bytes of an alert of TLS, of any version.
const TLS_ALERT: usize = 0x1503;
/// The first four bytes of a response of HTTP/1.
const HTTP: usize = 0x4854_5450;

impl InvalidLength {
    /// Describes the invalid length and its origin; `limit` is the exceeded option.
    pub fn describe(self, location: &str, limit: usize) -> String {
        match self {
            InvalidLength::Negative(size) => format!(
                "{location} sent a frame of negative size {size}: not a Kafka broker, \
                 or a port with TLS"
            ),
            InvalidLength::TooLarge(size) if size >> 16 == TLS_ALERT => format!(
                "{location} responded with a TLS alert: this port requires TLS; set \
                 security_protocol to 'SSL' or 'SASL_SSL'"
            ),
            InvalidLength::TooLarge(HTTP) => {
                format!("{location} responded with HTTP: it is not a Kafka broker")
            }
            InvalidLength::TooLarge(size) => format!(
                "{location} sent a frame of {size} bytes, more than the {limit} of \
                 receive_message_max_bytes (is it a Kafka broker? is it a port with TLS?)"
            ),
        }
    }
}

/// The system's text for an error, without the number that Rust appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => match text.strip_suffix(&format!(" (os error {code})")) {
            Some(bare) => bare.to_owned(),
            None => text,
        },
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_systems_text_alone() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(reason(&io::Error::other("mine")), "mine");
    }
}
