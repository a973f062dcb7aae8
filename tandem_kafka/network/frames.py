"""Bytes to frames: every frame gets a buffer of exactly its size, filled in place."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from tandem_kafka.errors import InvalidReceiveError

__all__ = ["FrameReader"]

_LENGTH = struct.Struct(">i")


class FrameReader:
    """Cuts one connection's bytes into frames; no input or output.

    Between frames bytes arrive in `scratch`, which all connections of a transport share: one
    receive then takes a length and what follows it, often many small frames at once. The rest
    of a large frame goes straight into the frame's own buffer.
    """

    __slots__ = ("_head", "_limit", "_rest", "_scratch", "_view", "_where")

    def __init__(self, scratch: memoryview, limit: int, where: str) -> None:
        self._scratch = scratch
        self._limit = limit
        self._where = where
        self._head = b""  # the beginning of a length
        self._view: memoryview | None = None  # the frame that is being filled
        self._rest: memoryview | None = None  # what of it is still to come

    @property
    def inside(self) -> bool:
        """True when a frame has begun and is not complete."""
        return self._rest is not None

    def buffer(self) -> memoryview:
        """Return where the next bytes belong."""
        return self._scratch if self._rest is None else self._rest

    def advance(self, count: int) -> Iterable[memoryview]:
        """Take note of `count` bytes put into `buffer()`; give the frames now complete.

        To be gone through to its end. An inadmissible length raises `InvalidReceiveError` only
        after the frames before it, for it is the answer to the request behind theirs.
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
            # Never from a pool: records, and the application behind them, keep the memory.
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
            raise InvalidReceiveError(
                f"{self._where} sent a frame of {size} bytes, more than the {self._limit} of "
                "receive_message_max_bytes (is it a Kafka broker? is it a port with TLS?)"
            )
