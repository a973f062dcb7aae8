//! Checks of a chain that OpenSSL makes and rustls does not: the key usage, the limits of trusted
//! authorities, and other issuers that OpenSSL would take first. A chain that does not pass them is
//! left to OpenSSL.

use super::certificate::Details;
use super::trust::Trusted;

/// Says why a chain is not an ordinary one. `issuers` begins with the issuer of the broker's
/// certificate and ends with the trusted authority.
pub fn oddity(
    end_entity: &Details,
    issuers: &[&Details],
    with_revocations: bool,
) -> Option<&'static str> {
    if let Some(oddity) = end_entity_oddity(end_entity) {
        return Some(oddity);
    }
    let mut below = end_entity;
    for (authorities, issuer) in issuers.iter().enumerate() {
        let is_last = authorities + 1 == issuers.len();
        if let Some(oddity) = issuer.oddity() {
            return Some(oddity);
        }
        if !issuer.may_sign(authorities) {
            return Some("an authority may not sign it");
        }
        // OpenSSL ends a chain at the first certificate that looks like its own issuer.
        if !below.may_be_signed_by(issuer) || !is_last && issuer.is_self_signed() {
            return Some("its issuer is not certain");
        }
        below = issuer;
    }
    let signs_list = |issuer: &&Details| issuer.may_sign_revocations();
    if with_revocations && !issuers.first().is_some_and(signs_list) {
        return Some("its authority may not revoke certificates");
    }
    names_oddity(end_entity, issuers)
}

/// Whether OpenSSL finds the same chain. It takes the first issuer that it finds, and tries no
/// other: a trusted one if possible, and after a trusted one only trusted ones.
pub fn is_the_only_one(
    end_entity: &Details,
    issuers: &[&Details],
    trusted: &Trusted,
    sent: &[Details],
) -> bool {
    let (mut below, mut below_is_trusted) = (end_entity, false);
    for issuer in issuers {
        let is_rival = |other: &Details| other.rivals(issuer) && below.may_be_signed_by(other);
        let is_trusted = trusted.all().any(|known| known.is(issuer));
        let is_certain = match is_trusted {
            true => !trusted.all().any(is_rival),
            false => !below_is_trusted && !trusted.all().chain(sent).any(is_rival),
        };
        if !is_certain {
            return false;
        }
        (below, below_is_trusted) = (issuer, is_trusted);
    }
    true
}

/// Says why a self-signed certificate that is trusted itself is not an ordinary one.
pub fn pinned_oddity(end_entity: &Details, trusted: &Trusted) -> Option<&'static str> {
    if trusted.revocations.is_some() {
        return Some("it is self-signed, and may have revoked itself");
    }
    if trusted.all().any(|other| other.rivals(end_entity)) {
        return Some("it may have several issuers");
    }
    end_entity_oddity(end_entity)
}

fn end_entity_oddity(end_entity: &Details) -> Option<&'static str> {
    if !end_entity.may_be_a_server() {
        return Some("its key usage excludes servers");
    }
    end_entity.oddity()
}

/// rustls applies constraints to fewer kinds of names than OpenSSL.
fn names_oddity(end_entity: &Details, issuers: &[&Details]) -> Option<&'static str> {
    let constrained = issuers.iter().any(|issuer| issuer.has_name_constraints);
    let plain = end_entity.has_plain_names(true)
        && issuers.iter().all(|issuer| issuer.has_plain_names(false));
    (constrained && !plain).then_some("name constraints apply to an unusual name")
}
