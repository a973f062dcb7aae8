"""Who may connect: the users of the SASL listeners and the certificates of the TLS ones."""

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

__all__ = ["PASSWORD", "SCRAM_MECHANISMS", "USERS", "Certificates", "scram_credentials"]

#: Users of every SASL mechanism. With an authorizer, `admin` may do everything.
USERS: Final = ("admin", "alice", "bob")
PASSWORD: Final = "a-password-for-tests"
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def scram_credentials() -> list[str]:
    """The SCRAM users as Kafka's storage tool takes them."""
    return [
        f"{mechanism}=[name={user},password={PASSWORD}]"
        for mechanism in SCRAM_MECHANISMS
        for user in USERS
    ]


class Certificates:
    """An authority, a certificate for the brokers on this machine, and one for a client.

    Attributes:
        authority: The authority's certificate; clients and brokers trust it.
        broker: Key and certificate chain of the brokers, for localhost and 127.0.0.1.
        client_certificate: Certificate chain of a client.
        client_key: Its key.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = folder / "authority.pem"
        self.broker = folder / "broker.pem"
        self.client_certificate = folder / "client.pem"
        self.client_key = folder / "client.key"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        broker = authority.issue_cert("localhost", "127.0.0.1", common_name="broker")
        self.broker.write_bytes(_key(broker) + _chain(broker))
        client = authority.issue_cert("client@test.invalid", common_name="client")
        self.client_certificate.write_bytes(_chain(client))
        self.client_key.write_bytes(_key(client))


def _chain(certificate: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in certificate.cert_chain_pems)


def _key(certificate: trustme.LeafCert) -> bytes:
    """The key as PKCS #8, the only form that Kafka reads."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
