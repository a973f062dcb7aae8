"""Splits received bytes into frames, each with a buffer of exactly its size."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from tandem_kafka.errors import InvalidReceiveError

_LENGTH = struct.Struct(">i")
#: The first two bytes of an alert of TLS, of any version.
_TLS_ALERT: Final = 0x1503
#: The first four bytes of a response of HTTP/1.
_HTTP: Final = 0x48545450


class FrameReader:
    """Splits the bytes of one connection into frames; does no input or output.

    Between frames, bytes are received into `scratch`, which all connections of a transport share.
    A single receive then returns a length and the following data, often many small frames at once.
    The rest of a large frame is received directly into its own buffer.
    """

    __slots__ = ("_head", "_limit", "_rest", "_scratch", "_view", "_where")

    def __init__(self, scratch: memoryview, limit: int, where: str) -> None:
        self._scratch = scratch
        self._limit = limit
        self._where = where
        self._head = b""  # an incomplete length
        self._view: memoryview | None = None  # an incomplete frame
        self._rest: memoryview | None = None  # the part of it that has not been received

    @property
    def inside(self) -> bool:
        """True if a frame is incomplete."""
        return self._rest is not None

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._scratch if self._rest is None else self._rest

    def advance(self, count: int) -> Iterable[memoryview]:
        """Process `count` bytes received into `buffer()`; return the complete frames.

        The result must be consumed completely. An invalid length raises `InvalidReceiveError`
        after the frames before it, because it belongs to a later request.
        """
        if self._rest is None or self._view is None:
            return self._split(self._scratch[:count])
        if count < len(self._rest):
            self._rest = self._rest[count:]
            return ()
        frame, self._view, self._rest = self._view, None, None
        return (frame,)

    def _split(self, data: memoryview) -> Iterator[memoryview]:
        if self._head:
            data = memoryview(self._head + data)
        position, end = 0, len(data)
        while end - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(data, position)
            self._check(size)
            position += _LENGTH.size
            present = min(size, end - position)
            # Never from a pool, because records that the application keeps refer to the memory.
            frame = memoryview(bytearray(size))
            frame[:present] = data[position : position + present]
            position += present
            if present < size:
                self._view, self._rest = frame, frame[present:]
            else:
                yield frame
        self._head = bytes(data[position:])

    def _check(self, size: int) -> None:
        if size < 0:
            raise InvalidReceiveError(
                f"{self._where} sent a frame of negative size {size}: not a Kafka broker, "
                "or a port with TLS"
            )
        if size > self._limit:
            raise InvalidReceiveError(self._too_large(size))

    def _too_large(self, size: int) -> str:
        if size >> 16 == _TLS_ALERT:
            return (
                f"{self._where} responded with a TLS alert: this port requires TLS; set "
                "security_protocol to 'SSL' or 'SASL_SSL'"
            )
        if size == _HTTP:
            return f"{self._where} responded with HTTP: it is not a Kafka broker"
        return (
            f"{self._where} sent a frame of {size} bytes, more than the {self._limit} of "
            "receive_message_max_bytes (is it a Kafka broker? is it a port with TLS?)"
        )
