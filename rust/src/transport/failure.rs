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
