//! The certificates that the user trusts, and the lists of revoked ones.

use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, TrustAnchor, UnixTime};
use webpki::{CertRevocationList, OwnedCertRevocationList, anchor_from_trusted_cert};
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode;

use super::certificate::Details;

/// Trusted certificates as OpenSSL uses them.
#[derive(Debug)]
pub struct Trusted {
    certificates: Vec<Certificate>,
    /// None without `ssl_crlfile`.
    pub revocations: Option<Vec<Revocations>>,
}

#[derive(Debug)]
pub struct Certificate {
    der: CertificateDer<'static>,
    pub details: Details,
    /// Invariant: only a self-signed certificate of an authority has one. Any other certificate in
    /// `ssl_cafile` signs nothing by itself.
    anchor: Option<TrustAnchor<'static>>,
}

impl Certificate {
    /// None if rustls cannot read it.
    fn new(der: CertificateDer<'static>) -> Option<Self> {
        let details = Details::of(&der)?;
        let anchor = match details.is_self_signed() && details.is_authority() {
            true => Some(anchor_from_trusted_cert(&der).ok()?.to_owned()),
            false => None,
        };
        Some(Certificate { der, details, anchor })
    }
}

impl Trusted {
    /// Certificates that rustls cannot read are left out.
    pub fn new(
        certificates: Vec<CertificateDer<'static>>,
        revocations: Option<Vec<Revocations>>,
    ) -> Result<Self, String> {
        let count = certificates.len();
        let certificates: Vec<_> = certificates.into_iter().filter_map(Certificate::new).collect();
        match certificates.is_empty() {
            true => Err(format!("rustls can read none of {count} trusted certificates")),
            false => Ok(Trusted { certificates, revocations }),
        }
    }

    /// The authorities that are valid now: OpenSSL checks this for each connection.
    pub fn authorities_at(&self, now: UnixTime) -> Vec<(TrustAnchor<'_>, &Details)> {
        let valid = self.certificates.iter().filter(|each| each.details.is_valid_at(now));
        valid.filter_map(|each| Some((each.anchor.clone()?, &each.details))).collect()
    }

    /// All of them, since OpenSSL may take any for an issuer.
    pub fn all(&self) -> impl Iterator<Item = &Details> {
        self.certificates.iter().map(|each| &each.details)
    }

    pub fn contains(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|each| each.der.as_ref() == certificate.as_ref())
    }

    /// The lists in effect; None without `ssl_crlfile`.
    pub fn revocations_at(&self, now: UnixTime) -> Option<Vec<&CertRevocationList<'static>>> {
        let all = self.revocations.as_ref()?;
        Some(all.iter().filter(|each| each.is_in_effect_at(now)).map(|each| &each.list).collect())
    }

    /// The certificates with which a chain may be completed: those that the broker has sent, and
    /// trusted authorities that need an issuer.
    pub fn with_intermediates<'a>(
        &'a self,
        sent: &'a [CertificateDer<'_>],
    ) -> Vec<CertificateDer<'a>> {
        let known = self.certificates.iter();
        let trusted = known.filter(|each| each.anchor.is_none() && each.details.is_authority());
        let all = sent.iter().map(AsRef::as_ref).chain(trusted.map(|each| each.der.as_ref()));
        all.map(CertificateDer::from).collect()
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
