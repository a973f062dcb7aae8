"""The facts of a certificate that an operator looks for."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tandem_kafka.cli.doctor.finding import Finding, Step, failed, passed, warned
from tandem_kafka.foreign_text import visible

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name


def certificate_facts(secured: ssl.SSLSocket) -> str:
    """Return subject, names, issuer and end of the peer's certificate, in parentheses.

    Empty if the package `cryptography` is missing or cannot read the certificate.
    """
    encoded = secured.getpeercert(binary_form=True)
    if encoded is None:
        return ""
    try:
        from cryptography.x509 import load_der_x509_certificate

        return _facts(load_der_x509_certificate(encoded))
    except (ImportError, ValueError):
        return ""


def own_certificate(path: str, now_ms: int) -> Finding:
    """Examine the dates of the client's certificate, which a broker may reject without a reason."""
    try:
        from cryptography.x509 import load_pem_x509_certificate

        certificate = load_pem_x509_certificate(Path(path).read_bytes())
        facts = _facts(certificate)
    except (ImportError, ValueError, OSError) as error:
        return warned(
            Step.TLS, path, f"the dates of the client's certificate are unknown: {error}",
            "install tandem-kafka[cli], or check the file",
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
    from cryptography.x509.oid import NameOID

    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string() or "without a name"


def _names(certificate: Certificate) -> list[str]:
    from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, SubjectAlternativeName

    try:
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return []
    addresses = map(str, found.get_values_for_type(IPAddress))
    return [*found.get_values_for_type(DNSName), *addresses]
