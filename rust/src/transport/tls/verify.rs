//! Verifies the broker's certificate: rustls's checks, with additions for options and for
//! compatibility with OpenSSL.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::certificate::Details;

#[derive(Debug)]
pub struct Verifier {
    pub chain: Arc<WebPkiServerVerifier>,
    pub check_hostname: bool,
    /// The certificates that the user trusts, which may include the broker's own.
    pub trusted: Vec<CertificateDer<'static>>,
}

/// A reason in OpenSSL's wording.
#[derive(Debug)]
pub struct Reason(&'static str);

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Reason {}

impl Verifier {
    /// Decides about a certificate with a valid chain and a wrong name.
    fn judge_name(
        &self,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        error: CertificateError,
    ) -> Result<ServerCertVerified, Error> {
        let unnamed = match &error {
            CertificateError::NotValidForNameContext { presented, .. } => presented.is_empty(),
            _ => false,
        };
        let named = unnamed && Details::of(end_entity).is_some_and(|d| d.is_named(server_name));
        if !self.check_hostname || named {
            return Ok(ServerCertVerified::assertion());
        }
        Err(error.into())
    }

    /// Decides about a certificate with an invalid chain. It is accepted if the user trusts the
    /// certificate itself, for instance a self-signed one.
    fn judge_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        now: UnixTime,
        error: CertificateError,
    ) -> Result<ServerCertVerified, Error> {
        let Some(details) = Details::of(end_entity) else { return Err(error.into()) };
        let unknown = matches!(error, CertificateError::UnknownIssuer | CertificateError::Other(_));
        if !details.self_issued || !unknown {
            return Err(error.into());
        }
        if !self.trusted.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref()) {
            let reason = OtherError(Arc::new(Reason("self-signed certificate")));
            return Err(CertificateError::Other(reason).into());
        }
        if !details.is_valid_at(now) {
            return Err(CertificateError::Expired.into());
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        match verify_server_name(&parsed, server_name) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(Error::InvalidCertificate(error)) => {
                self.judge_name(end_entity, server_name, error)
            }
            Err(error) => Err(error),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let outcome = self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match outcome {
            // rustls checks the name last: the chain and the revocation status are valid.
            Err(Error::InvalidCertificate(
                error @ (CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. }),
            )) => self.judge_name(end_entity, server_name, error),
            Err(Error::InvalidCertificate(error)) => {
                self.judge_chain(end_entity, server_name, now, error)
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
