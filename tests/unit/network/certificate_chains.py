"""Chains of certificates, good and bad, with the verdict that is expected of both transports."""

from __future__ import annotations

import datetime as dt
import functools
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from tests.unit.network.certificates import DAY, NOW

SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH
ANY: Final = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
#: Stands for the key of a certificate's issuer, where the certificate names another one.
OTHER_KEY: Final = b"another key"
_USES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Verdict(Enum):
    """What is expected of a chain."""

    ACCEPTED = "both transports accept it"
    REFUSED = "neither accepts it"
    LEFT = "OpenSSL accepts it, and the native transport leaves it to OpenSSL"
    STRICTER = "OpenSSL accepts it, and the native transport refuses it"


@dataclass
class Made:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        plain: bytes = self.key.private_bytes(encoding, form, serialization.NoEncryption())
        return plain


@dataclass
class Case:
    """A chain that a broker sends, and the options of the consumer.

    Attributes:
        sent: The broker's certificate first.
        trusted: The contents of `ssl_cafile`.
        revoked: The contents of `ssl_crlfile`, or None.
    """

    name: str
    verdict: Verdict
    sent: Sequence[Made]
    trusted: Iterable[Made | bytes]
    revoked: bytes | None = None
    host: str = "localhost"
    check_hostname: bool = True


@functools.cache
def rsa_key(bits: int) -> rsa.RSAPrivateKey:
    """Return one key per size, because new ones take long."""
    return rsa.generate_private_key(65537, bits)


#: The object identifier of a signature by RSA, but for its last byte.
_BY_RSA: Final = bytes.fromhex("06092a864886f70d0101")


def signed_weakly(made: Made, signer: Made, number: int, digest: hashes.HashAlgorithm) -> Made:
    """Sign again with a digest that no library uses any more; the signer's key is one of RSA.

    Args:
        number: The last byte of the object identifier: 5 for SHA-1, 4 for MD5.
    """
    strong, weak = _BY_RSA + b"\x0b", _BY_RSA + bytes([number])
    to_sign = made.certificate.tbs_certificate_bytes.replace(strong, weak)
    signature = signer.key.sign(to_sign, padding.PKCS1v15(), digest)
    der = made.certificate.public_bytes(serialization.Encoding.DER).replace(strong, weak)
    der = der.replace(made.certificate.signature, signature)
    return Made(x509.load_der_x509_certificate(der), made.key)


def name_of(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)] if text else [])


def dns(*names: str) -> list[x509.GeneralName]:
    return [x509.DNSName(name) for name in names]


def address(text: str) -> list[x509.GeneralName]:
    return [x509.IPAddress(ipaddress.ip_address(text))]


def uses(*names: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{each: each in names for each in _USES})


def unknown(oid: str, value: bytes = b"\x05\x00", *, critical: bool = True) -> tuple[Any, bool]:
    return x509.UnrecognizedExtension(ObjectIdentifier(oid), value), critical


def permitted(*names: x509.GeneralName) -> x509.NameConstraints:
    return x509.NameConstraints(permitted_subtrees=names, excluded_subtrees=None)


def excluded(*names: x509.GeneralName) -> x509.NameConstraints:
    return x509.NameConstraints(permitted_subtrees=None, excluded_subtrees=names)


def make(
    subject: str | x509.Name,
    issuer: Made | None = None,
    *,
    since: dt.timedelta = -10 * DAY,
    until: dt.timedelta = DAY,
    key: Any = None,
    digest: Any = hashes.SHA256,
    issuer_key: bytes | None = b"",
    **extensions: Any,
) -> Made:
    """Create a certificate; self-signed without an issuer.

    Args:
        issuer_key: The identifier of the issuer's key; None for a certificate without identifiers.
        extensions: See `_extensions`.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = name_of(subject) if isinstance(subject, str) else subject
    signer = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + since)
        .not_valid_after(NOW + until)
    )
    for extension, critical in _extensions(**extensions):
        builder = builder.add_extension(extension, critical)
    if issuer_key is not None:
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        of_issuer = x509.SubjectKeyIdentifier.from_public_key(signer.public_key()).digest
        named = x509.AuthorityKeyIdentifier(issuer_key or of_issuer, None, None)
        builder = builder.add_extension(own, False).add_extension(named, False)
    return Made(builder.sign(signer, digest and digest()), key)


def _extensions(
    *,
    authority: bool | None = None,
    path_length: int | None = None,
    names: Sequence[x509.GeneralName] = (),
    usage: x509.KeyUsage | None = None,
    purposes: Sequence[ObjectIdentifier] = (),
    constraints: x509.NameConstraints | None = None,
    others: Sequence[tuple[Any, bool]] = (),
) -> list[tuple[Any, bool]]:
    found: list[tuple[Any, bool]] = list(others)
    if authority is not None:
        found.append((x509.BasicConstraints(authority, path_length), True))
    if names:
        found.append((x509.SubjectAlternativeName(names), False))
    if usage is not None:
        found.append((usage, True))
    if purposes:
        found.append((x509.ExtendedKeyUsage(purposes), False))
    if constraints is not None:
        found.append((constraints, True))
    return found


def authority(
    subject: str | x509.Name = "root", issuer: Made | None = None, **options: Any
) -> Made:
    return make(subject, issuer, **{"authority": True, **options})


def broker(issuer: Made | None = None, subject: str | x509.Name = "broker", **options: Any) -> Made:
    return make(subject, issuer, **{"authority": False, "names": dns("localhost"), **options})


def revocations(
    issuer: Made,
    *revoked: Made,
    since: dt.timedelta = -5 * DAY,
    until: dt.timedelta = DAY,
    number: int = 1,
    key: Any = None,
) -> bytes:
    """Return a list of revoked certificates."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(NOW + since)
        .next_update(NOW + until)
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    for made in revoked:
        entry = x509.RevokedCertificateBuilder()
        entry = entry.serial_number(made.certificate.serial_number).revocation_date(NOW - DAY)
        builder = builder.add_revoked_certificate(entry.build())
    signed = builder.sign(key or issuer.key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)
