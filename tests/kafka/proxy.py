"""A fixed address in front of a broker's port, by which connections can be watched and ended."""

from __future__ import annotations

import contextlib
import socket
import threading

__all__ = ["Proxy"]

_CHUNK = 65_536


class Proxy:
    """Passes bytes on, both ways.

    Args:
        target: Where to, `host:port`.

    Attributes:
        port: Where it listens, on this machine.
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
        """The address of its clients' `bootstrap_servers`."""
        return f"127.0.0.1:{self.port}"

    def lead_to(self, target: str) -> None:
        """Have new connections go there."""
        self._target = target

    def cut(self) -> None:
        """End every connection there is."""
        for pair in tuple(self._pairs):
            _shut(pair)

    def close(self) -> None:
        """Take no more connections and end those there are."""
        self._closed = True
        # A thread blocked in accept() or recv() notices a shutdown, not a close.
        _shut((self._listener,))
        self.cut()
        for thread in tuple(self._threads):
            thread.join(10.0)
            assert not thread.is_alive()
        self._listener.close()

    def passed(self, data: bytes, *, to_client: bool) -> bytes:  # noqa: ARG002 - for those that care
        """Return what goes on instead of a chunk; may take its time."""
        return data

    def passes(self, pair: object) -> bool:  # noqa: ARG002 - for those that care
        """Tell whether anything gets through a connection."""
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
