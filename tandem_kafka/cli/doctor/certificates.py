"""The facts of a certificate that an operator looks for."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name

__all__ = ["certificate_facts"]


def certificate_facts(secured: ssl.SSLSocket) -> str:
    """Return subject, names, issuer and end of the peer's certificate, in parentheses.

    Empty if the package `cryptography` is missing or cannot read the certificate.
    """
    encoded = secured.getpeercert(binary_form=True)
    if encoded is None:
        return ""
    try:
        from cryptography.x509 import load_der_x509_certificate

        certificate = load_der_x509_certificate(encoded)
        facts = [
            f"subject {_common_name(certificate.subject)}",
            f"for {', '.join(_names(certificate)) or 'no name'}",
            f"issued by {_common_name(certificate.issuer)}",
            f"valid from {certificate.not_valid_before_utc:%Y-%m-%d}",
            f"to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
        ]
    except (ImportError, ValueError):
        return ""
    text = "; ".join(facts[:3]) + f"; {facts[3]} {facts[4]}"
    return f"({text})" if text.isprintable() else f"({text!r})"


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
