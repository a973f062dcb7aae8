//! Cipher suites by their OpenSSL names, which the option `ssl_ciphers` uses.

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedCipherSuite};

/// Suites of TLS 1.2; `ssl_ciphers` does not affect those of TLS 1.3.
const NAMES: [(&str, CipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Restricts the provider to the named suites of TLS 1.2, in the given order.
pub fn restrict(provider: &mut CryptoProvider, names: &[String]) -> Result<(), String> {
    let (newest, older): (Vec<SupportedCipherSuite>, Vec<SupportedCipherSuite>) =
        provider.cipher_suites.iter().partition(|suite| suite.tls13().is_some());
    let mut chosen = newest;
    for name in names {
        let suite = NAMES
            .iter()
            .find(|(known, _)| known == name)
            .and_then(|(_, suite)| older.iter().find(|has| has.suite() == *suite))
            .ok_or_else(|| format!("ssl_ciphers selects {name}, which rustls does not support"))?;
        chosen.push(*suite);
    }
    provider.cipher_suites = chosen;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_and_unknown_names_are_reported() {
        let mut provider = rustls::crypto::ring::default_provider();
        restrict(&mut provider, &["ECDHE-RSA-AES256-GCM-SHA384".to_owned()]).unwrap();
        let older: Vec<_> = provider.cipher_suites.iter().filter(|s| s.tls13().is_none()).collect();
        assert_eq!(older.len(), 1);
        assert_eq!(older[0].suite(), CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384);
        assert_eq!(provider.cipher_suites.len(), 4);
        let rejected = restrict(&mut provider, &["AES128-SHA".to_owned()]).unwrap_err();
        assert!(rejected.contains("AES128-SHA"), "{rejected}");
    }
}
