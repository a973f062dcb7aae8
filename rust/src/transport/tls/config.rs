//! Creates the configuration of all sessions from the contents of the configured files.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::trust::Trusted;
use super::verify::Verifier;
use super::{ciphers, key, trust};

/// TLS for all connections of a consumer. A `ValueError` names settings that rustls does not
/// support. OpenSSL has already checked that the options are valid. It decides about brokers if
/// rustls cannot read whom the user trusts.
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
        // OpenSSL also uses the lists in `ssl_cafile`.
        let files: Vec<&[u8]> = revoked.iter().chain(&authorities).map(Vec::as_slice).collect();
        let revocations = revoked.is_some().then(|| trust::revocations(&files)).transpose();
        let trusted = match &authorities {
            Some(pem) => certificates("ssl_cafile", pem),
            None => Ok(rustls_native_certs::load_native_certs().certs),
        };
        // Not an error: the files may have changed, and the old content must not stay in use.
        let trusted = trusted.and_then(|trusted| Trusted::new(trusted, revocations?));
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
            let verifier = Arc::new(Verifier {
                algorithms: provider.signature_verification_algorithms,
                trusted,
                check_hostname,
            });
            let provider = Arc::new(provider);
            let builder = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .dangerous()
                .with_custom_certificate_verifier(verifier);
            let mut config = match identity? {
                None => builder.with_no_client_auth(),
                Some((chain, key)) => builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("ssl_certfile: {error}"))?,
            };
            // Invariant: each connection is verified; a resumed session would not be.
            config.resumption = Resumption::disabled();
            Ok(config)
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
