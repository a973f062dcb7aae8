"""Creates certificates of all kinds for tests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOCALHOST: list[x509.GeneralName] = [x509.DNSName("localhost")]
NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


@dataclass
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self, encryption: Any = None) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            encryption or serialization.NoEncryption(),
        )


def issue(
    name: str,
    issuer: Issued | None = None,
    *,
    authority: bool = False,
    names: list[x509.GeneralName] | None = None,
    until: dt.timedelta = DAY,
    version_1: bool = False,
) -> Issued:
    """Create a certificate; self-signed without an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 10 * DAY)
        .not_valid_after(NOW + until)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signer = issuer.key if issuer else key
    certificate = builder.sign(signer, hashes.SHA256())
    return Issued(_as_version_1(certificate, signer) if version_1 else certificate, key)


def _as_version_1(
    certificate: x509.Certificate, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    """Remove version and extensions, and sign again, because no library creates version 1."""
    fields = list(_elements(_content(certificate.tbs_certificate_bytes)))
    version, extensions = b"\xa0", b"\xa3"
    old = [field for field in fields if field[:1] not in {version, extensions}]
    to_sign = _sequence(b"".join(old))
    algorithm = old[1]
    signature = b"\0" + signer.sign(to_sign, ec.ECDSA(hashes.SHA256()))
    return x509.load_der_x509_certificate(
        _sequence(to_sign + algorithm + b"\x03" + _length(len(signature)) + signature)
    )


def _length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(octets)]) + octets


def _sequence(content: bytes) -> bytes:
    return b"\x30" + _length(len(content)) + content


def _header(der: bytes) -> tuple[int, int]:
    """Return the sizes of an element's header and of its content."""
    size = der[1]
    if size < 0x80:
        return 2, size
    count = size & 0x7F
    return 2 + count, int.from_bytes(der[2 : 2 + count], "big")


def _content(der: bytes) -> bytes:
    header, size = _header(der)
    return der[header : header + size]


def _elements(content: bytes) -> Iterator[bytes]:
    while content:
        end = sum(_header(content))
        yield content[:end]
        content = content[end:]
