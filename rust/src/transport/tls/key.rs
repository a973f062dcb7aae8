//! Reads the client's private key, which may have a password.

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::SecretDocument;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Reads the first private key of a PEM file; an error says why rustls cannot use it.
pub fn read(pem: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    let text = String::from_utf8_lossy(pem);
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err("ssl_keyfile is encrypted in the legacy PEM format, not PKCS#8".to_owned());
    }
    let encrypted = text
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END))
        .map(|(body, _)| format!("{BEGIN}{body}{END}\n"));
    match encrypted {
        Some(pem) => decrypt(&pem, password.unwrap_or_default()),
        None => PrivateKeyDer::from_pem_slice(pem)
            .map_err(|error| format!("ssl_keyfile cannot be read by rustls: {error}")),
    }
}

fn decrypt(pem: &str, password: &str) -> Result<PrivateKeyDer<'static>, String> {
    let unsupported = |error: &dyn std::fmt::Display| {
        format!("ssl_keyfile has an unsupported encryption: {error}")
    };
    let (_, document) = SecretDocument::from_pem(pem).map_err(|error| unsupported(&error))?;
    let info = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|error| unsupported(&error))?;
    let plain = info.decrypt(password).map_err(|error| unsupported(&error))?;
    Ok(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}
