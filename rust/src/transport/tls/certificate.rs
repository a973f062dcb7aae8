//! Fields of a certificate that the verifier does not expose.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_cert::Certificate;
use x509_cert::der::Decode;

pub struct Details {
    pub self_issued: bool,
    pub common_name: Option<String>,
    not_before: Duration,
    not_after: Duration,
}

impl Details {
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = Certificate::from_der(certificate.as_ref()).ok()?;
        let content = parsed.tbs_certificate();
        let common_name = content.subject().common_name().ok().flatten();
        Some(Details {
            self_issued: content.issuer() == content.subject(),
            common_name: common_name.map(|name| name.value().into_owned()),
            not_before: content.validity().not_before.to_unix_duration(),
            not_after: content.validity().not_after.to_unix_duration(),
        })
    }

    pub fn is_valid_at(&self, now: UnixTime) -> bool {
        (self.not_before..=self.not_after).contains(&Duration::from_secs(now.as_secs()))
    }

    /// Checks the common name of a certificate without alternative names, like OpenSSL and Java.
    pub fn is_named(&self, server: &ServerName<'_>) -> bool {
        let (Some(pattern), ServerName::DnsName(name)) = (&self.common_name, server) else {
            return false;
        };
        let (pattern, name) = (pattern.to_ascii_lowercase(), name.as_ref().to_ascii_lowercase());
        match pattern.strip_prefix("*.") {
            None => pattern == name,
            Some(domain) => name.split_once('.').is_some_and(|(host, rest)| {
                !host.is_empty() && rest == domain && domain.contains('.')
            }),
        }
    }
}
