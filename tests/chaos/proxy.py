"""A door to one listener of a broker: what passes may be late, wrong, or cut off."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from tandem_kafka.runtime import Random

__all__ = ["FILLER", "Proxy"]

#: Values are made of this but for their number: bytes that a batch's checksum covers.
FILLER = b"x"

_RUN = FILLER * 32
_CHUNK = 65_536


class Proxy:
    """Passes bytes on to a port of this machine, both ways.

    Attributes:
        port: Where it listens.
        delay_s: How much later each chunk goes on.
        corrupt: Share of chunks on their way to the client in which a byte of a value is changed.
        corrupted: How many were.
    """

    def __init__(self, target: int, random: Random) -> None:
        self.delay_s = 0.0
        self.corrupt = 0.0
        self.corrupted = 0
        self._target = target
        self._random = random
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection there is."""
        for pair in tuple(self._pairs):
            _shut(pair)

    def close(self) -> None:
        """Take no more connections and end those there are."""
        _shut((self._listener,))
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target), 5.0)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            pair = (client, broker)
            self._pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(source, sink, pair), daemon=True).start()

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        pair: tuple[socket.socket, socket.socket],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if self.delay_s:
                    time.sleep(self.delay_s)
                sink.sendall(self._changed(data) if source is pair[1] else data)
        _shut(pair)
        self._pairs.discard(pair)

    def _changed(self, data: bytes) -> bytes:
        if not self.corrupt or self._random.random() >= self.corrupt:
            return data
        at = data.find(_RUN, self._random.randrange(len(data)))
        if at < 0:
            return data
        self.corrupted += 1
        return data[: at + 16] + b"?" + data[at + 17 :]


def _shut(sockets: tuple[socket.socket, ...]) -> None:
    # A thread blocked in recv() notices a shutdown, not a close.
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
