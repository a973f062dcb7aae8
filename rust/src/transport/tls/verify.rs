//! Verifies the broker's certificate.
//!
//! rustls's library builds and checks the chain. `path` has the checks that only OpenSSL makes.
//! Invariant: what OpenSSL rejects with the same options is not accepted. In doubt, OpenSSL decides
//! (`network/tls_fallback.py`).

use std::cell::Cell;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use webpki::{
    EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth, RevocationOptionsBuilder,
    VerifiedPath,
};

use super::certificate::{Details, fits_wildcards};
use super::path;
use super::trust::Trusted;

#[derive(Debug)]
pub struct Verifier {
    pub algorithms: WebPkiSupportedAlgorithms,
    /// Or why rustls cannot read whom the user trusts.
    pub trusted: Result<Trusted, String>,
    pub check_hostname: bool,
}

/// A verdict in OpenSSL's wording.
#[derive(Debug)]
pub struct Reason(&'static str);

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Reason {}

/// Why only OpenSSL can decide about a certificate.
#[derive(Debug)]
pub struct Undecided(String);

impl std::fmt::Display for Undecided {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "rustls cannot decide: {}", self.0)
    }
}

impl std::error::Error for Undecided {}

fn undecided(reason: &str) -> Error {
    CertificateError::Other(OtherError(Arc::new(Undecided(reason.to_owned())))).into()
}

impl Verifier {
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let trusted = self.trusted.as_ref().map_err(|reason| undecided(reason))?;
        let details = Details::of(certificate).ok_or_else(|| undecided("it cannot be read"))?;
        let end_entity = EndEntityCert::try_from(certificate).map_err(|error| other(&error))?;
        if details.is_self_signed() {
            judge_pinned(trusted, certificate, &details, now)?;
        } else {
            self.judge_chain(trusted, &end_entity, &details, sent, now)?;
        }
        self.judge_name(&end_entity, &details, server_name)
    }

    fn judge_chain(
        &self,
        trusted: &Trusted,
        end_entity: &EndEntityCert<'_>,
        details: &Details,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let authorities = trusted.authorities_at(now);
        let anchors: Vec<_> = authorities.into_iter().map(|(anchor, _)| anchor).collect();
        let lists = trusted.revocations_at(now);
        let revocation = match &lists {
            None => None,
            Some(lists) => {
                let options = RevocationOptionsBuilder::new(lists)
                    .map_err(|_| CertificateError::UnknownRevocationStatus)?;
                let options = options.with_depth(RevocationCheckDepth::EndEntity);
                Some(options.with_expiration_policy(ExpirationPolicy::Enforce).build())
            }
        };
        let odd = Cell::new(None);
        let is_ordinary = |found: &VerifiedPath<'_>| {
            let oddity = oddity(trusted, found, details, sent, now);
            odd.set(odd.get().or(oddity));
            oddity.map_or(Ok(()), |_| Err(webpki::Error::UnknownIssuer))
        };
        let intermediates = trusted.with_intermediates(sent);
        let outcome = end_entity.verify_for_usage(
            self.algorithms.all,
            &anchors,
            &intermediates,
            now,
            KeyUsage::server_auth(),
            revocation,
            Some(&is_ordinary),
        );
        match (outcome, odd.get()) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some(oddity)) => Err(undecided(oddity)),
            (Err(error), None) => Err(chain_error(error)),
        }
    }

    fn judge_name(
        &self,
        end_entity: &EndEntityCert<'_>,
        details: &Details,
        server_name: &ServerName<'_>,
    ) -> Result<(), Error> {
        if !self.check_hostname {
            return Ok(());
        }
        match end_entity.verify_is_valid_for_subject_name(server_name) {
            Ok(()) => match server_name {
                ServerName::DnsName(host)
                    if !fits_wildcards(host.as_ref()) && !details.lists(host.as_ref()) =>
                {
                    Err(CertificateError::NotValidForName.into())
                }
                _ => Ok(()),
            },
            Err(_) if details.is_named(server_name) => Ok(()),
            Err(webpki::Error::CertNotValidForName(names)) => {
                let (expected, presented) = (names.expected, names.presented);
                Err(CertificateError::NotValidForNameContext { expected, presented }.into())
            }
            Err(error) => Err(other(&error)),
        }
    }
}

/// A self-signed certificate is accepted if the user trusts the very same one.
fn judge_pinned(
    trusted: &Trusted,
    certificate: &CertificateDer<'_>,
    details: &Details,
    now: UnixTime,
) -> Result<(), Error> {
    if !trusted.contains(certificate) {
        let reason = OtherError(Arc::new(Reason("self-signed certificate")));
        return Err(CertificateError::Other(reason).into());
    }
    if !details.is_valid_at(now) {
        return Err(CertificateError::Expired.into());
    }
    path::pinned_oddity(details, trusted).map_or(Ok(()), |oddity| Err(undecided(oddity)))
}

/// Says why a chain is not an ordinary one. Authorities may have renewed their certificates,
/// with the same name and key.
fn oddity(
    trusted: &Trusted,
    found: &VerifiedPath<'_>,
    end_entity: &Details,
    sent: &[CertificateDer<'_>],
    now: UnixTime,
) -> Option<&'static str> {
    let intermediates: Option<Vec<Details>> =
        found.intermediate_certificates().map(|each| Details::of(&each.der())).collect();
    let sent: Option<Vec<Details>> = sent.iter().map(Details::of).collect();
    let (Some(intermediates), Some(sent)) = (intermediates, sent) else {
        return Some("a certificate of an issuer cannot be read");
    };
    let mut oddity = Some("its authority is unknown");
    for (anchor, authority) in trusted.authorities_at(now) {
        if anchor != *found.anchor() {
            continue;
        }
        let issuers: Vec<&Details> = intermediates.iter().chain([authority]).collect();
        oddity = path::oddity(end_entity, &issuers, trusted.revocations.is_some());
        if oddity.is_none() {
            let only = path::is_the_only_one(end_entity, &issuers, trusted, &sent);
            return (!only).then_some("it may have several issuers");
        }
    }
    oddity
}

/// Converts the errors that are verdicts; OpenSSL decides about all others.
fn chain_error(error: webpki::Error) -> Error {
    match error {
        webpki::Error::CertExpired { time, not_after } => {
            CertificateError::ExpiredContext { time, not_after }.into()
        }
        webpki::Error::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }.into()
        }
        webpki::Error::CrlExpired { time, next_update } => {
            CertificateError::ExpiredRevocationListContext { time, next_update }.into()
        }
        webpki::Error::CertRevoked => CertificateError::Revoked.into(),
        webpki::Error::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus.into(),
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer.into(),
        error => other(&error),
    }
}

fn other(error: &webpki::Error) -> Error {
    CertificateError::Other(OtherError(Arc::new(error.clone()))).into()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity, intermediates, server_name, now)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
