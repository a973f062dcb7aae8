//! The certificates that the user trusts, and the lists of revoked ones.

use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, TrustAnchor, UnixTime};
use webpki::{CertRevocationList, OwnedCertRevocationList, anchor_from_trusted_cert};
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode;

use super::certificate::Details;

/// Trusted certificates as OpenSSL uses them.
///
/// Invariant: only a self-signed certificate of an authority is an anchor. Anything else in
/// `ssl_cafile` signs nothing by itself.
#[derive(Debug, Default)]
pub struct Trusted {
    authorities: Vec<Authority>,
    /// Authorities that need an issuer, for chains that the broker sends without them.
    intermediates: Vec<(CertificateDer<'static>, Details)>,
    /// Self-signed certificates, which a broker may use itself.
    pinned: Vec<CertificateDer<'static>>,
    /// None without `ssl_crlfile`.
    pub revocations: Option<Vec<Revocations>>,
}

#[derive(Debug)]
pub struct Authority {
    anchor: TrustAnchor<'static>,
    pub details: Details,
}

impl Trusted {
    /// Sorts certificates; those that rustls cannot read are left out.
    pub fn new(
        certificates: Vec<CertificateDer<'static>>,
        revocations: Option<Vec<Revocations>>,
    ) -> Result<Self, String> {
        let count = certificates.len();
        let mut trusted = Trusted { revocations, ..Trusted::default() };
        for certificate in certificates {
            trusted.add(certificate);
        }
        if trusted.authorities.is_empty() && trusted.pinned.is_empty() {
            return Err(format!(
                "rustls can start a chain at none of {count} trusted certificates"
            ));
        }
        Ok(trusted)
    }

    fn add(&mut self, certificate: CertificateDer<'static>) {
        let Some(details) = Details::of(&certificate) else { return };
        if !details.is_self_signed() {
            if details.is_authority() {
                self.intermediates.push((certificate, details));
            }
            return;
        }
        if details.is_authority() {
            if let Ok(anchor) = anchor_from_trusted_cert(&certificate) {
                self.authorities.push(Authority { anchor: anchor.to_owned(), details });
            }
        }
        self.pinned.push(certificate);
    }

    /// The authorities that are valid now: OpenSSL checks this for each connection.
    pub fn authorities_at(&self, now: UnixTime) -> Vec<&Authority> {
        self.authorities.iter().filter(|authority| authority.details.is_valid_at(now)).collect()
    }

    /// All trusted certificates that might have signed another.
    pub fn issuers(&self) -> Vec<&Details> {
        let authorities = self.authorities.iter().map(|authority| &authority.details);
        authorities.chain(self.intermediates.iter().map(|(_, details)| details)).collect()
    }

    pub fn is_pinned(&self, certificate: &CertificateDer<'_>) -> bool {
        self.pinned.iter().any(|pinned| pinned.as_ref() == certificate.as_ref())
    }

    /// The lists in effect; None without `ssl_crlfile`.
    pub fn revocations_at(&self, now: UnixTime) -> Option<Vec<&CertRevocationList<'static>>> {
        let all = self.revocations.as_ref()?;
        Some(all.iter().filter(|each| each.is_in_effect_at(now)).map(|each| &each.list).collect())
    }

    /// The certificates with which a chain may be completed.
    pub fn with_intermediates<'a>(
        &'a self,
        sent: &'a [CertificateDer<'_>],
    ) -> Vec<CertificateDer<'a>> {
        let borrowed =
            |certificate: &'a CertificateDer<'_>| CertificateDer::from(certificate.as_ref());
        sent.iter()
            .map(borrowed)
            .chain(self.intermediates.iter().map(|(der, _)| borrowed(der)))
            .collect()
    }
}

impl Authority {
    pub fn anchor(&self) -> TrustAnchor<'_> {
        self.anchor.clone()
    }

    pub fn is(&self, anchor: &TrustAnchor<'_>) -> bool {
        self.anchor == *anchor
    }
}

/// A list of revoked certificates.
#[derive(Debug)]
pub struct Revocations {
    list: CertRevocationList<'static>,
    begin: Duration,
}

impl Revocations {
    fn is_in_effect_at(&self, now: UnixTime) -> bool {
        self.begin <= Duration::from_secs(now.as_secs())
    }
}

/// Reads all lists. OpenSSL chooses among several of one issuer by rules that rustls lacks.
pub fn revocations(files: &[&[u8]]) -> Result<Vec<Revocations>, String> {
    let mut found: Vec<Revocations> = Vec::new();
    for file in files {
        for der in CertificateRevocationListDer::pem_slice_iter(file) {
            let der = der.map_err(|error| unreadable(&error))?;
            let parsed = CertificateList::<x509_cert::certificate::Rfc5280>::from_der(&der)
                .map_err(|error| unreadable(&error))?;
            let list =
                OwnedCertRevocationList::from_der(&der).map_err(|error| unreadable(&error))?;
            let list = CertRevocationList::from(list);
            if found.iter().any(|other| other.list.issuer() == list.issuer()) {
                return Err("there are several revocation lists of one issuer".to_owned());
            }
            let begin = parsed.tbs_cert_list.this_update.to_unix_duration();
            found.push(Revocations { list, begin });
        }
    }
    Ok(found)
}

fn unreadable(error: &dyn std::fmt::Display) -> String {
    format!("ssl_crlfile cannot be read by rustls: {error}")
}
