"""A proxy with a fixed address for a broker's port; it can observe and cut connections."""

from __future__ import annotations

import contextlib
import socket
import threading

_CHUNK = 65_536


class Proxy:
    """Forwards bytes in both directions.

    Args:
        target: The address to forward to, `host:port`.

    Attributes:
        port: The port on which it listens, on this machine.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._closed = False
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        """The address for `bootstrap_servers` of its clients."""
        return f"127.0.0.1:{self.port}"

    def lead_to(self, target: str) -> None:
        """Forward new connections to this address."""
        self._target = target

    def cut(self) -> None:
        """Close all existing connections."""
        for pair in tuple(self._pairs):
            _shut(pair)

    def close(self) -> None:
        """Accept no more connections, and close the existing ones."""
        self._closed = True
        # A thread blocked in accept() or recv() notices a shutdown, but not a close.
        _shut((self._listener,))
        self.cut()
        for thread in tuple(self._threads):
            thread.join(10.0)
            assert not thread.is_alive()
        self._listener.close()

    def passed(self, data: bytes, *, to_client: bool) -> bytes:  # noqa: ARG002 - for those that care
        """Return the bytes to forward for a chunk; subclasses may delay or change them."""
        return data

    def passes(self, pair: object) -> bool:  # noqa: ARG002 - for those that care
        """Return whether bytes pass through a connection."""
        return True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        host, port = self._target.split(":")
        with client:
            try:
                broker = socket.create_connection((host, int(port)), 5.0)
            except OSError:
                return
            broker.settimeout(None)
            with broker:
                pair = (client, broker)
                self._pairs.add(pair)
                if self._closed:
                    _shut(pair)
                back = threading.Thread(target=self._pump, args=(broker, client, pair), daemon=True)
                back.start()
                self._pump(client, broker, pair)
                back.join()
                self._pairs.discard(pair)

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        pair: tuple[socket.socket, socket.socket],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if self.passes(pair):
                    sink.sendall(self.passed(data, to_client=sink is pair[0]))
        _shut(pair)


def _shut(sockets: tuple[socket.socket, ...]) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
