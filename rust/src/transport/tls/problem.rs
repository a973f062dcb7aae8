//! Converts TLS failures to error messages.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError};

use super::verify::{Reason, Undecided};
use crate::transport::failure::{Failure, NO_TLS, reason};

#[derive(Debug)]
pub enum Problem {
    /// The host name is not valid in a certificate.
    Name(String),
    Tls(Error),
    Io(io::Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::Tls(error)
    }
}

impl Problem {
    /// Converts a problem; `open` is true after the handshake, `received` after the first bytes.
    pub fn into_failure(self, location: &str, open: bool, received: bool) -> Failure {
        let error = match self {
            Problem::Name(text) => {
                return Failure::Unsupported(format!("TLS with {location}: {text}"));
            }
            Problem::Io(error) => {
                return Failure::Lost(format!("lost {location}: {}", reason(&error)));
            }
            Problem::Tls(error) => error,
        };
        let text = describe(&error);
        // In TLS 1.3, the broker rejects our certificate after our side of the handshake.
        let rejected = matches!(error, Error::AlertReceived(_)) && !received;
        if open && !rejected {
            return Failure::Lost(format!("lost {location}: {text}"));
        }
        let text = format!("TLS with {location}: {text}");
        if open || is_verdict(&error) { Failure::Tls(text) } else { Failure::Unsupported(text) }
    }
}

/// Whether OpenSSL would fail, too: expired, revoked, a wrong host, or our certificate is rejected.
/// Invariant: anything else is tried with OpenSSL. It may succeed if rustls does not support a
/// certificate or a handshake, for instance a certificate of version 1 or CBC ciphers.
fn is_verdict(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(error) => is_verdict_on_certificate(error),
        Error::AlertReceived(alert) => concerns_client_certificate(*alert),
        Error::InvalidMessage(message) => is_no_tls(message),
        _ => false,
    }
}

/// Not final if the issuer is unknown: rustls compares issuers' names as bytes, OpenSSL as text.
fn is_verdict_on_certificate(error: &CertificateError) -> bool {
    if let CertificateError::Other(OtherError(reason)) = error {
        return reason.is::<Reason>();
    }
    matches!(
        error,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::Revoked
            | CertificateError::UnknownRevocationStatus
            | CertificateError::ExpiredRevocationList
            | CertificateError::ExpiredRevocationListContext { .. }
            | CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }
    )
}

/// The broker rejects our certificate, or requires one.
fn concerns_client_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

fn is_no_tls(message: &InvalidMessage) -> bool {
    matches!(
        message,
        InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
    )
}

fn describe(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => {
            format!("certificate verify failed: {}", describe_certificate(error))
        }
        Error::AlertReceived(alert) => format!("the broker sent the alert {}", name(*alert)),
        Error::InvalidMessage(message) if is_no_tls(message) => {
            format!("wrong version number; {NO_TLS}")
        }
        other => other.to_string(),
    }
}

fn describe_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "unable to get local issuer certificate".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate is not yet valid".to_owned()
        }
        CertificateError::Revoked => "certificate revoked".to_owned(),
        CertificateError::UnknownRevocationStatus => "unable to get certificate CRL".to_owned(),
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => "CRL has expired".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let name = expected.to_str();
            let others = if presented.is_empty() { "no name" } else { &presented.join(", ") };
            format!("Hostname mismatch, certificate is not valid for '{name}', but for {others}")
        }
        CertificateError::Other(OtherError(reason))
            if reason.is::<Reason>() || reason.is::<Undecided>() =>
        {
            reason.to_string()
        }
        other => Error::InvalidCertificate(other.clone()).to_string(),
    }
}

/// An alert as RFC 8446 writes it: `certificate_required`.
fn name(alert: AlertDescription) -> String {
    let mut text = String::new();
    for letter in format!("{alert:?}").chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() && !text.ends_with(['(', ' ']) {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_words() {
        assert_eq!(name(AlertDescription::CertificateRequired), "certificate required");
        assert_eq!(name(AlertDescription::HandshakeFailure), "handshake failure");
    }

    #[test]
    fn an_early_alert_concerns_the_client_certificate_and_a_later_one_does_not() {
        let alert = || Problem::Tls(Error::AlertReceived(AlertDescription::CertificateRequired));
        let rejected = "TLS with here: the broker sent the alert certificate required".to_owned();
        assert_eq!(alert().into_failure("here", false, false), Failure::Tls(rejected.clone()));
        assert_eq!(alert().into_failure("here", true, false), Failure::Tls(rejected));
        assert!(matches!(alert().into_failure("here", true, true), Failure::Lost(_)));
    }

    #[test]
    fn a_certificate_that_openssl_may_accept_is_no_verdict() {
        let failure = |error| Problem::Tls(error).into_failure("here", false, false);
        for error in [
            Error::AlertReceived(AlertDescription::HandshakeFailure),
            Error::InvalidCertificate(CertificateError::BadEncoding),
            Error::InvalidCertificate(CertificateError::UnknownIssuer),
            Error::General("strange".to_owned()),
        ] {
            assert!(matches!(failure(error), Failure::Unsupported(_)));
        }
        for error in [
            Error::AlertReceived(AlertDescription::UnknownCA),
            Error::InvalidCertificate(CertificateError::Expired),
            Error::InvalidCertificate(CertificateError::NotValidForName),
            Error::InvalidMessage(InvalidMessage::InvalidContentType),
        ] {
            assert!(matches!(failure(error), Failure::Tls(_)));
        }
    }
}
