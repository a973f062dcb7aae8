//! What ends a connection, in a user's words.

use std::io;

/// The text of an error and which exception Python makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `KafkaConnectionError`: refused, cut, reset.
    Lost(String),
    /// `TlsAuthenticationError`: a check of TLS failed, here or at the broker.
    Tls(String),
    /// A `TlsAuthenticationError` too, unless OpenSSL takes what rustls does not.
    Unsupported(String),
    /// `InvalidReceiveError`: a length that no frame may have.
    Frame(String),
}

/// The system's words for an error, without the number that Rust adds.
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
