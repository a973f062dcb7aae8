"""The broker's side of TLS."""

from __future__ import annotations

import ssl
import threading
from typing import Any

import trustme

from tests.unit.network.peers import Peer
from tests.unit.network.scripted import Settings


class Server:
    """A broker whose thread does the TLS handshake and then echoes, one connection at a time."""

    def __init__(
        self, peer: Peer, ca: trustme.CA | None = None, host: str = "localhost", **options: Any
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if ca is not None:
            ca.issue_cert(host).configure_cert(self.context)
        else:
            self.context.load_cert_chain(*options["chain"])
        if ca is not None and options.get("client_certificates"):
            self.context.verify_mode = ssl.CERT_REQUIRED
            ca.configure_trust(self.context)
        if "client_authority" in options:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(options["client_authority"])
        if "ciphers" in options:
            self.context.set_ciphers(options["ciphers"])
        if "maximum" in options:
            self.context.maximum_version = options["maximum"]
        self.cipher: str | None = None
        self._peer = peer
        self._connections = options.get("connections", 1)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        for _ in range(self._connections):
            self._serve_one()

    def _serve_one(self) -> None:
        try:
            with self.context.wrap_socket(self._peer.accept(), server_side=True) as sock:
                chosen = sock.cipher()
                self.cipher = chosen[0] if chosen else None
                while data := sock.recv(1 << 16):
                    sock.sendall(data)
        except OSError:
            pass


def settings(**options: Any) -> Settings:
    return Settings(security_protocol="SSL", receive_message_max_bytes=50_000_000, **options)
