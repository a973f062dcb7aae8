"""The facts of a certificate that an operator looks for."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

from cryptography.x509 import (
    Certificate,
    DNSName,
    ExtensionNotFound,
    IPAddress,
    Name,
    SubjectAlternativeName,
    load_der_x509_certificate,
    load_pem_x509_certificate,
)
from cryptography.x509.oid import NameOID

from tandem_kafka.foreign_text import visible
from tandem_kafka_cli.doctor.finding import Finding, Step, failed, passed, warned


def certificate_facts(secured: ssl.SSLSocket) -> str:
    """Return subject, names, issuer and end of the peer's certificate, in parentheses.

    Empty if the package `cryptography` cannot read the certificate.
    """
    encoded = secured.getpeercert(binary_form=True)
    if encoded is None:
        return ""
    try:
        return _facts(load_der_x509_certificate(encoded))
    except ValueError:
        return ""


def own_certificate(path: str, now_ms: int) -> Finding:
    """Examine the dates of the client's certificate, which a broker may reject without a reason."""
    try:
        certificate = load_pem_x509_certificate(Path(path).read_bytes())
        facts = _facts(certificate)
    except (ValueError, OSError) as error:
        return warned(
            Step.TLS, path, f"the dates of the client's certificate are unknown: {error}",
            "check the file",
        )  # fmt: skip
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if now > end:
        return failed(Step.TLS, path, f"the client's certificate has expired {facts}", "renew it")
    if now < begin:
        return failed(
            Step.TLS, path, f"the client's certificate is not valid yet {facts}",
            "wait until it is valid, or set the clock of this machine",
        )  # fmt: skip
    return passed(Step.TLS, path, f"the client's certificate is valid {facts}")


def _facts(certificate: Certificate) -> str:
    facts = [
        f"subject {_common_name(certificate.subject)}",
        f"for {', '.join(_names(certificate)) or 'no name'}",
        f"issued by {_common_name(certificate.issuer)}",
        f"valid from {certificate.not_valid_before_utc:%Y-%m-%d}",
        f"to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
    ]
    return visible(f"({'; '.join(facts[:3])}; {facts[3]} {facts[4]})", keep="")


def _common_name(name: Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string() or "without a name"


def _names(certificate: Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return []
    addresses = map(str, found.get_values_for_type(IPAddress))
    return [*found.get_values_for_type(DNSName), *addresses]
