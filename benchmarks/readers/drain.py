"""A socket without a client: it fetches records and discards the bytes.

This is the upper limit for one connection with one fetch in flight in a Python process. A first
pass reads the batches to determine the offsets of all fetches. The second pass sends the same
requests again, and is measured.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.readers.base import Source

__all__ = ["Drain"]

_FETCH, _VERSION = 1, 11
_MAX_BYTES, _PARTITION_BYTES = 52_428_800, 1_048_576  # the defaults of clients
_BATCH_OVERHEAD = 12
_ROOM = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Exchange:
    request: bytes
    records: int


class Drain:
    """One fetch in flight for all partitions, without decoding."""

    def __init__(self, source: Source) -> None:
        host, port = source.bootstrap.split(",")[0].split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(source.partitions * _PARTITION_BYTES + _ROOM)
        self._size = source.size
        self._exchanges = iter(list(self._find_requests(source)))

    def _find_requests(self, source: Source) -> Iterator[_Exchange]:
        offsets = dict.fromkeys(range(source.partitions), 0)
        while True:
            request = _request(source.topic, offsets)
            reached = dict(_ends(self._exchange(request)))
            if not reached:
                return
            records = sum(end - offsets[partition] for partition, end in reached.items())
            offsets |= reached
            yield _Exchange(request, records)

    def count(self, timeout_s: float) -> tuple[int, int]:  # noqa: ARG002 - what a reader takes
        """Fetch once, and discard the response."""
        exchange = next(self._exchanges)
        self._exchange(exchange.request)
        return exchange.records, exchange.records * self._size

    def _exchange(self, request: bytes) -> memoryview:
        self._socket.sendall(request)
        view = memoryview(self._buffer)
        self._receive(view[:4])
        (length,) = struct.unpack_from(">i", view)
        body = view[:length]
        self._receive(body)
        return body

    def _receive(self, into: memoryview) -> None:
        while into:
            got = self._socket.recv_into(into)
            if not got:
                raise RuntimeError("the broker closed the connection")
            into = into[got:]

    def values(self, timeout_s: float) -> list[bytes]:
        """Return nothing: records are not decoded."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _request(topic: str, offsets: dict[int, int]) -> bytes:
    """Return a fetch request for all partitions, without a session."""
    partitions = b"".join(
        struct.pack(">iiqqi", number, -1, offset, -1, _PARTITION_BYTES)
        for number, offset in offsets.items()
    )
    body = (
        struct.pack(">hhi", _FETCH, _VERSION, 0)
        + _text("drain")
        + struct.pack(">iiiibii", -1, 500, 1, _MAX_BYTES, 0, 0, -1)
        + struct.pack(">i", 1)
        + _text(topic)
        + struct.pack(">i", len(offsets))
        + partitions
        + struct.pack(">i", 0)
        + _text("")
    )
    return struct.pack(">i", len(body)) + body


def _ends(response: memoryview) -> Iterator[tuple[int, int]]:
    """Yield each partition with records in the response, and the offset after them."""
    # correlation id, throttle time, error, session id, one topic and its name
    _, _, error, _, _, length = struct.unpack_from(">iihiih", response)
    at = 20 + length
    (count,) = struct.unpack_from(">i", response, at)
    at += 4
    for _ in range(count):
        partition, failed, _, _, _, aborted = struct.unpack_from(">ihqqqi", response, at)
        if error or failed:
            raise RuntimeError(f"the broker responded to a fetch with error {error or failed}")
        at += 34 + 16 * max(0, aborted)
        _, size = struct.unpack_from(">ii", response, at)
        at += 8
        end = _end_of(response[at : at + size])
        if end is not None:
            yield partition, end
        at += size


def _end_of(batches: memoryview) -> int | None:
    """Return the offset after the last complete batch."""
    at, end = 0, None
    while at + _BATCH_OVERHEAD <= len(batches):
        base, length = struct.unpack_from(">qi", batches, at)
        if at + _BATCH_OVERHEAD + length > len(batches):
            break
        (last,) = struct.unpack_from(">i", batches, at + 23)
        end = base + last + 1
        at += _BATCH_OVERHEAD + length
    return end
