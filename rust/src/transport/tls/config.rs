//! Creates the configuration of all sessions from the contents of the configured files.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::{ClientConfig, RootCertStore};

use super::verify::Verifier;
use super::{ciphers, key};

/// TLS for all connections of a consumer. A `ValueError` names settings that rustls does not
/// support. OpenSSL has already checked that the options are valid.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct TlsConfig(pub Arc<ClientConfig>);

#[pymethods]
impl TlsConfig {
    #[new]
    #[pyo3(signature = (
        *, authorities, chain, key, password, revoked, check_hostname, ciphers
    ))]
    #[allow(clippy::too_many_arguments)] // options, passed by name
    fn new(
        authorities: Option<Vec<u8>>,
        chain: Option<Vec<u8>>,
        key: Option<Vec<u8>>,
        password: Option<String>,
        revoked: Option<Vec<u8>>,
        check_hostname: bool,
        ciphers: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let trusted = match authorities {
            Some(pem) => certificates("ssl_cafile", &pem),
            None => Ok(rustls_native_certs::load_native_certs().certs),
        };
        let identity = match (chain, key) {
            (Some(chain), Some(key)) => certificates("ssl_certfile", &chain).and_then(|chain| {
                key::read(&key, password.as_deref()).map(|key| Some((chain, key)))
            }),
            _ => Ok(None),
        };
        let build = || -> Result<ClientConfig, String> {
            let mut provider = rustls::crypto::ring::default_provider();
            if let Some(names) = ciphers {
                ciphers::restrict(&mut provider, &names)?;
            }
            let provider = Arc::new(provider);
            let trusted = trusted?;
            let mut chain = WebPkiServerVerifier::builder_with_provider(
                Arc::new(roots(&trusted)?),
                Arc::clone(&provider),
            );
            if let Some(pem) = revoked {
                chain = chain
                    .with_crls(revocations(&pem)?)
                    .only_check_end_entity_revocation()
                    .enforce_revocation_expiration();
            }
            let chain = chain.build().map_err(|error| error.to_string())?;
            let verifier = Arc::new(Verifier { chain, check_hostname, trusted });
            let builder = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .dangerous()
                .with_custom_certificate_verifier(verifier);
            match identity? {
                None => Ok(builder.with_no_client_auth()),
                Some((chain, key)) => builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("ssl_certfile: {error}")),
            }
        };
        build().map(|config| TlsConfig(Arc::new(config))).map_err(PyValueError::new_err)
    }
}

fn certificates(option: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| format!("{option} cannot be read by rustls: {error}"))?;
    if found.is_empty() {
        return Err(format!("{option} has no certificate in a format that rustls supports"));
    }
    Ok(found)
}

fn revocations(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    found.map_err(|error| format!("ssl_crlfile cannot be read by rustls: {error}"))
}

/// The certificate authorities; rustls ignores those that it cannot read.
fn roots(trusted: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (known, unknown) = roots.add_parsable_certificates(trusted.iter().cloned());
    if known == 0 {
        return Err(format!("rustls supports none of the {unknown} certificate authorities"));
    }
    Ok(roots)
}
