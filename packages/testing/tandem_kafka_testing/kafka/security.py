"""The users of the SASL listeners, and the certificates of the TLS listeners."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

#: Users of every SASL mechanism. With an authorizer, `admin` may do everything.
USERS: Final = ("admin", "alice", "bob")
PASSWORD: Final = "a-password-for-tests"
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def scram_credentials() -> list[str]:
    """Return the SCRAM users in the form of Kafka's storage tool."""
    return [
        f"{mechanism}=[name={user},password={PASSWORD}]"
        for mechanism in SCRAM_MECHANISMS
        for user in USERS
    ]


def login_options(protocol: str, user: str) -> dict[str, str]:
    """Return the options of a client that logs in as a user."""
    if not protocol.startswith("SASL_"):
        return {}
    return {
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORD,
    }


class Certificates:
    """An authority, a certificate for the brokers on this machine, and one for a client.

    Attributes:
        folder: Where all files are.
        authority: The authority's certificate; clients and brokers trust it.
        broker: Key and certificate chain of the brokers, for localhost and 127.0.0.1.
        client_certificate: Certificate chain of a client.
        client_key: Its key.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = folder / "authority.pem"
        self.broker = folder / "broker.pem"
        self.client_certificate = folder / "client.pem"
        self.client_key = folder / "client.key"
        authority = trustme.CA()
        # As text, which other processes can have too.
        self._pems = authority.cert_pem.bytes(), authority.private_key_pem.bytes()
        authority.cert_pem.write_to_path(str(self.authority))
        broker = authority.issue_cert("localhost", "127.0.0.1", common_name="broker")
        write_certificate(self.broker, broker)
        client = authority.issue_cert("client@test.invalid", common_name="client")
        self.client_certificate.write_bytes(_chain(client))
        self.client_key.write_bytes(_key(client))

    @property
    def issuer(self) -> trustme.CA:
        """The authority, which can issue further certificates."""
        return trustme.CA.from_pem(*self._pems)


def tls_options(protocol: str, certificates: Certificates) -> dict[str, str]:
    """Return the options of a client that trusts the brokers and shows its own certificate."""
    if not protocol.endswith("SSL"):
        return {}
    return {
        "ssl_cafile": str(certificates.authority),
        "ssl_certfile": str(certificates.client_certificate),
        "ssl_keyfile": str(certificates.client_key),
    }


def write_certificate(path: Path, certificate: trustme.LeafCert) -> None:
    """Write key and chain to one file, in the form of a broker's key store."""
    path.write_bytes(_key(certificate) + _chain(certificate))


def _chain(certificate: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in certificate.cert_chain_pems)


def _key(certificate: trustme.LeafCert) -> bytes:
    """Return the key as PKCS #8, the only format that Kafka reads."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
