//! What OpenSSL reads in a certificate, and rustls does not.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_cert::certificate::{TbsCertificate, Version};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{self, Decode, oid::AssociatedOid};
use x509_cert::ext::pkix::name::{GeneralName, GeneralNames};
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, NameConstraints,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::{Certificate, ext::Extension};

const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const EMAIL_ADDRESS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.1");

/// Extensions that may be critical, because rustls checks them or `path` does.
const CHECKED: [ObjectIdentifier; 5] = [
    KeyUsage::OID,
    SubjectAltName::OID,
    BasicConstraints::OID,
    NameConstraints::OID,
    ExtendedKeyUsage::OID,
];

/// Extensions that OpenSSL checks even if they are not critical: the address blocks of RFC 3779,
/// proxy certificates, and Netscape's type of a certificate.
const CHECKED_BY_OPENSSL_ONLY: [ObjectIdentifier; 4] = [
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.7"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.8"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.14"),
    ObjectIdentifier::new_unwrap("2.16.840.1.113730.1.1"),
];

#[derive(Debug)]
pub struct Details {
    content: TbsCertificate,
    constraints: Option<BasicConstraints>,
    key_usage: Option<KeyUsage>,
    purposes: Option<ExtendedKeyUsage>,
    names: Option<GeneralNames>,
    key: Option<SubjectKeyIdentifier>,
    issuer_key: Option<AuthorityKeyIdentifier>,
    pub has_name_constraints: bool,
}

impl Details {
    /// Reads a certificate; None if a part of it cannot be read, or is there twice.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        Self::read(certificate.as_ref()).ok()
    }

    fn read(certificate: &[u8]) -> der::Result<Self> {
        let content = Certificate::from_der(certificate)?.tbs_certificate().clone();
        Ok(Details {
            constraints: extension(&content)?,
            key_usage: extension(&content)?,
            purposes: extension(&content)?,
            names: extension::<SubjectAltName>(&content)?.map(|names| names.0),
            key: extension(&content)?,
            issuer_key: extension(&content)?,
            has_name_constraints: extension::<NameConstraints>(&content)?.is_some(),
            content,
        })
    }

    pub fn is_valid_at(&self, now: UnixTime) -> bool {
        let validity = self.content.validity();
        let (from, until) = (&validity.not_before, &validity.not_after);
        (from.to_unix_duration()..=until.to_unix_duration())
            .contains(&Duration::from_secs(now.as_secs()))
    }

    /// Whether OpenSSL takes it for self-signed. It does not check the signature.
    pub fn is_self_signed(&self) -> bool {
        self.content.issuer() == self.content.subject() && self.may_be_signed_by(self)
    }

    /// Whether it could be chosen instead of another one as an issuer. Two roots with the same key
    /// are as good as one.
    pub fn rivals(&self, other: &Details) -> bool {
        let (mine, others) = (&self.content, &other.content);
        let roots = self.is_self_signed() && other.is_self_signed();
        let same_key = mine.subject_public_key_info() == others.subject_public_key_info();
        mine.subject() == others.subject() && !self.is(other) && !(roots && same_key)
    }

    pub fn is(&self, other: &Details) -> bool {
        self.content == other.content
    }

    /// Whether it is the certificate of an authority. Version 1 cannot say so.
    pub fn is_authority(&self) -> bool {
        match &self.constraints {
            Some(constraints) => constraints.ca,
            None => self.content.version() == Version::V1 && self.is_self_signed(),
        }
    }

    /// Compares the identifiers of the issuer's key, if there are any.
    pub fn may_be_signed_by(&self, issuer: &Details) -> bool {
        let Some(wanted) = &self.issuer_key else { return true };
        let same_key = match (&wanted.key_identifier, &issuer.key) {
            (Some(wanted), Some(key)) => *wanted == key.0,
            _ => true,
        };
        let serial = issuer.content.serial_number();
        let same_serial =
            wanted.authority_cert_serial_number.as_ref().is_none_or(|number| number == serial);
        let same_name = wanted.authority_cert_issuer.as_ref().is_none_or(|names| {
            matches!(names.as_slice(),
                [GeneralName::DirectoryName(name)] if name == issuer.content.issuer())
        });
        same_key && same_serial && same_name
    }

    /// Says what OpenSSL may reject in any certificate of a chain.
    pub fn oddity(&self) -> Option<&'static str> {
        let extensions = self.content.extensions().map_or(&[][..], |all| all);
        let is_odd = |extension: &Extension| {
            CHECKED_BY_OPENSSL_ONLY.contains(&extension.extn_id)
                || extension.critical && !CHECKED.contains(&extension.extn_id)
        };
        if extensions.iter().any(is_odd) {
            return Some("it has an extension that only OpenSSL knows");
        }
        if self.purposes.as_ref().is_some_and(|purposes| !purposes.0.contains(&SERVER_AUTH)) {
            return Some("its extended key usage excludes servers");
        }
        None
    }

    /// Whether it may sign a handshake.
    pub fn may_be_a_server(&self) -> bool {
        self.key_usage.as_ref().is_none_or(KeyUsage::digital_signature)
    }

    /// Whether it may sign certificates, with that number of authorities between it and the
    /// broker's certificate.
    pub fn may_sign(&self, authorities: usize) -> bool {
        let limit = self.constraints.as_ref().and_then(|found| found.path_len_constraint);
        self.is_authority()
            && self.key_usage.as_ref().is_none_or(KeyUsage::key_cert_sign)
            && limit.is_none_or(|limit| authorities <= usize::from(limit))
    }

    pub fn may_sign_revocations(&self) -> bool {
        self.key_usage.as_ref().is_none_or(KeyUsage::crl_sign)
    }

    /// Whether rustls and OpenSSL find the same names in it when they apply name constraints.
    pub fn has_plain_names(&self, is_end_entity: bool) -> bool {
        let plain = |name: &GeneralName| {
            matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_))
        };
        let alternatives = match &self.names {
            Some(names) => !names.is_empty() && names.iter().all(plain),
            None => !is_end_entity,
        };
        let emails = self.content.subject().iter().any(|part| part.oid == EMAIL_ADDRESS);
        alternatives && !emails
    }

    /// Whether an alternative name is a host's, without wildcards.
    pub fn lists(&self, host: &str) -> bool {
        self.names.iter().flatten().any(|name| {
            matches!(name, GeneralName::DnsName(listed) if listed.as_str().eq_ignore_ascii_case(host))
        })
    }

    /// Checks the common name of a certificate without alternative names, like OpenSSL and Java.
    pub fn is_named(&self, server: &ServerName<'_>) -> bool {
        let common_name = self.content.subject().common_name().ok().flatten();
        let (None, Some(pattern), ServerName::DnsName(name)) = (&self.names, common_name, server)
        else {
            return false;
        };
        let (pattern, name) =
            (pattern.value().to_ascii_lowercase(), name.as_ref().to_ascii_lowercase());
        match pattern.strip_prefix("*.") {
            None => pattern == name,
            Some(domain) => name.split_once('.').is_some_and(|(host, rest)| {
                !host.is_empty() && rest == domain && domain.contains('.') && fits_wildcards(&name)
            }),
        }
    }
}

/// OpenSSL compares a host with underscores only with names without wildcards.
pub fn fits_wildcards(host: &str) -> bool {
    !host.contains('_')
}

fn extension<T: for<'a> Decode<'a, Error = der::Error> + AssociatedOid>(
    content: &TbsCertificate,
) -> der::Result<Option<T>> {
    Ok(content.get_extension::<T>()?.map(|(_, value)| value))
}
