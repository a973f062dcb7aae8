"""Connections through a proxy: SOCKS5 (RFC 1928, 1929) and HTTP CONNECT (RFC 9110)."""

from __future__ import annotations

import base64
import ipaddress
import socket
from collections.abc import Generator
from typing import Final
from urllib.parse import urlsplit

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.foreign_text import Secret, SentSecrets
from tandem_kafka.network.transport import ServerAddress

#: Yields bytes to send, or the number of bytes to receive.
_Dialogue = Generator[bytes | int, bytes, None]

_NO_LOGIN: Final = 0
_PASSWORD: Final = 2
_IPV4, _NAME, _IPV6 = 1, 3, 4
_REFUSALS: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}
_LONGEST_HEAD: Final = 65_536


@dataclass(frozen=True)
class Proxy:
    """The parts of `proxy_url`.

    Attributes:
        remote_names: Whether the proxy resolves the host names of brokers.
    """

    scheme: str
    host: str
    port: int
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    remote_names: bool

    @classmethod
    def of(cls, url: str | None) -> Proxy | None:
        """Parse a valid URL; user and password are not decoded."""
        if url is None:
            return None
        parts = urlsplit(url)
        return cls(
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=parts.port or 0,
            user=parts.username,
            password=parts.password,
            remote_names=parts.scheme != "socks5",
        )

    def __str__(self) -> str:
        """Return the URL without user and password."""
        return f"{self.scheme}://{self.host}:{self.port}"

    def dialogue(self, address: ServerAddress) -> _Dialogue:
        """Return the dialogue that connects to an address.

        Raises:
            KafkaConnectionError: The proxy rejects the connection or uses another protocol.
        """
        return self._connect(address) if self.scheme == "http" else self._socks(address)

    # SOCKS5

    def _socks(self, address: ServerAddress) -> _Dialogue:
        login = bool(self.user and self.password)
        wanted = _PASSWORD if login else _NO_LOGIN
        yield bytes([5, 1, wanted])
        version, method = yield 2
        if version != 5:
            raise KafkaConnectionError("it does not speak SOCKS5")
        if method == _PASSWORD and login:
            yield from self._log_in()
        elif method != _NO_LOGIN:
            raise KafkaConnectionError(
                "it does not accept the login method; check user and password in proxy_url"
            )
        yield bytes([5, 1, 0]) + self._target(address) + address.port.to_bytes(2, "big")
        _, refusal, _, kind = yield 4
        if refusal:
            reason = _REFUSALS.get(refusal, f"error {refusal}")
            raise KafkaConnectionError(f"it cannot connect: {reason}")
        yield from _skip_address(kind)

    def _log_in(self) -> _Dialogue:
        parts = Secret([(self.user or "").encode(), (self.password or "").encode()])
        if max(map(len, parts.reveal())) > 255:
            raise KafkaConnectionError(
                "user and password in proxy_url must not exceed 255 bytes each"
            )
        yield b"\1" + b"".join(bytes([len(part)]) + part for part in parts.reveal())
        _, refusal = yield 2
        if refusal:
            raise KafkaConnectionError("it rejected the user or password in proxy_url")

    def _target(self, address: ServerAddress) -> bytes:
        try:
            ip = ipaddress.ip_address(address.ip)
        except ValueError:
            name = address.ip.encode("idna")
            return bytes([_NAME, len(name)]) + name
        return bytes([_IPV4 if ip.version == 4 else _IPV6]) + ip.packed

    # HTTP

    def _basic(self) -> str:
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def _connect(self, address: ServerAddress) -> _Dialogue:
        where = f"{f'[{address.ip}]' if ':' in address.ip else address.ip}:{address.port}"
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
        if self.user and self.password:
            lines.append(f"Proxy-Authorization: Basic {self._basic()}")
        request = Secret("\r\n".join([*lines, "", ""]).encode())
        lines.clear()
        yield request.reveal()
        head = Secret(bytearray())  # a proxy may repeat the request
        while not head.reveal().endswith(b"\r\n\r\n"):
            head.reveal().extend((yield 1))  # bytes after the head come from the broker
            if len(head.reveal()) > _LONGEST_HEAD:
                raise KafkaConnectionError(f"its response exceeds {_LONGEST_HEAD} bytes")
        status = Secret(bytes(head.reveal()).split(b"\r\n", 1)[0].decode("latin-1"))
        if status.reveal().split(" ")[1:2] != ["200"]:
            sent = SentSecrets(Secret(self.password or ""))
            raise KafkaConnectionError(f"it responded with '{sent.readable(status)}'")


def _skip_address(kind: int) -> _Dialogue:
    """Skip the address from which the proxy connects."""
    size = {_IPV4: 4, _IPV6: 16}.get(kind)
    if size is None:
        (size,) = yield 1
    yield size + 2


class Tunnel:
    """A dialogue with a proxy on a non-blocking socket."""

    def __init__(self, proxy: Proxy, address: ServerAddress) -> None:
        self._proxy = proxy
        self._dialogue = proxy.dialogue(address)
        self._to_send = b""
        self._received = b""
        self._missing = 0
        self._take(next(self._dialogue))

    @property
    def sending(self) -> bool:
        """True while there are bytes to send."""
        return bool(self._to_send)

    def advance(self, sock: socket.socket) -> bool:
        """Continue the dialogue; return True once the socket is connected to the broker.

        Raises:
            KafkaConnectionError: The proxy rejects or closes the connection.
            OSError: The connection is lost.
        """
        try:
            while True:
                self._take(self._dialogue.send(self._exchange(sock)))
        except StopIteration:
            return True
        except BlockingIOError:
            return False
        except KafkaConnectionError as error:
            raise KafkaConnectionError(f"{self._proxy}: {error.args[0]}") from error

    def _take(self, step: bytes | int) -> None:
        self._received = b""
        self._to_send, self._missing = (step, 0) if isinstance(step, bytes) else (b"", step)

    def _exchange(self, sock: socket.socket) -> bytes:
        """Send the pending bytes, then receive and return the expected bytes."""
        while self._to_send:
            self._to_send = self._to_send[sock.send(self._to_send) :]
        while len(self._received) < self._missing:
            data = sock.recv(self._missing - len(self._received))
            if not data:
                raise KafkaConnectionError("it closed the connection")
            self._received += data
        return self._received
