"""A proxy for tests: SOCKS5 and HTTP CONNECT on one port, as defined by their RFCs."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from contextlib import suppress

__all__ = ["ProxyServer"]


class ProxyServer:
    """Serves every connection on separate threads.

    Args:
        login: The required user and password; by default none.
        rejection: The SOCKS5 error or HTTP status of its responses; 0 for success.

    Attributes:
        asked: The requested targets, as written in the requests.
        names: Where to connect for a name; others are looked up.
    """

    def __init__(self, login: tuple[str, str] | None = None, rejection: int = 0) -> None:
        self.login = login
        self.rejection = rejection
        self.take_event: list[tuple[str, int]] = []
        self.names: dict[str, str] = {}
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        self._start(self._listen)

    def url(self, scheme: str = "socks5") -> str:
        login = f"{':'.join(self.login)}@" if self.login is not None else ""
        return f"{scheme}://{login}127.0.0.1:{self.port}"

    def close(self) -> None:
        self._closed = True
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _start(self, target: object, *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _listen(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._keep(sock)
            self._start(self._serve, sock)

    def _keep(self, sock: socket.socket) -> None:
        """Close a socket at the end, even one that is registered after the end."""
        self._sockets.append(sock)
        if self._closed:
            sock.close()

    def _serve(self, sock: socket.socket) -> None:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
            server = self._socks(sock) if first == b"\x05" else self._http(sock)
            if server is not None:
                self._start(_copy, sock, server)
                _copy(server, sock)
                return
        except (OSError, EOFError):
            pass
        sock.close()

    def _reach(self, host: str, port: int) -> socket.socket:
        self.take_event.append((host, port))
        server = socket.create_connection((self.names.get(host, host), port), 5)
        self._keep(server)
        return server

    def _socks(self, sock: socket.socket) -> socket.socket | None:
        _, count = _read(sock, 2)
        methods = _read(sock, count)
        wanted = 0 if self.login is None else 2
        if wanted not in methods:
            sock.sendall(b"\x05\xff")
            return None
        sock.sendall(bytes([5, wanted]))
        if self.login is not None:
            _, size = _read(sock, 2)
            user = _read(sock, size).decode()
            password = _read(sock, _read(sock, 1)[0]).decode()
            good = (user, password) == self.login
            sock.sendall(b"\x01" + (b"\0" if good else b"\x01"))
            if not good:
                return None
        *_, kind = _read(sock, 4)
        if kind == 3:
            host = _read(sock, _read(sock, 1)[0]).decode()
        else:
            family, size = {1: (socket.AF_INET, 4), 4: (socket.AF_INET6, 16)}[kind]
            host = socket.inet_ntop(family, _read(sock, size))
        (port,) = struct.unpack(">H", _read(sock, 2))
        server = None if self.rejection else self._reach(host, port)
        # With a name of seven letters: clients must skip addresses of every kind.
        response = bytes([5, self.rejection, 0, 3, 7]) + b"a.proxy" + b"\0\1"
        for part in (response[:3], response[3:9], response[9:]):
            sock.sendall(part)
        return server

    def _http(self, sock: socket.socket) -> socket.socket | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += _read(sock, 1)
        lines = head.decode().split("\r\n")
        if self.login is not None:
            basic = base64.b64encode(":".join(self.login).encode()).decode()
            if f"Proxy-Authorization: Basic {basic}" not in lines:
                sock.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return None
        if self.rejection:
            sock.sendall(b"HTTP/1.1 %d Bad Gateway\r\nX: y\r\n\r\n" % self.rejection)
            return None
        host, _, port = lines[0].split(" ")[1].rpartition(":")
        server = self._reach(host.strip("[]"), int(port))
        sock.sendall(b"HTTP/1.1 200 Connection established\r\nVia: tests\r\n\r\n")
        return server


def _read(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    for sock in (source, sink):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
