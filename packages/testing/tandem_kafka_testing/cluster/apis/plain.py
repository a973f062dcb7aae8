"""Responses of plain values, with a cache of their bytes: most are equal."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tandem_kafka.wire.framing import encode_message


class Plain:
    """In place of a message of kafka-python; its fields may be changed. None of them is a list."""

    __slots__ = ("__dict__", "_kind")

    def __init__(self, kind: Any, **fields: Any) -> None:
        self._kind = kind
        self.__dict__.update(fields)

    def encode(self, *, version: int) -> bytes:
        """Return the bytes of the body."""
        return _encoded(self._kind, version, tuple(self.__dict__.items()))

    def flexible_version_q(self, version: int) -> bool:
        """Return whether a version has tagged fields."""
        return bool(self._kind.flexible_version_q(version))


class Cached:
    """A message that is not changed any more: each version is encoded once."""

    __slots__ = ("_bytes", "_message")

    def __init__(self, message: Any) -> None:
        self._message = message
        self._bytes: dict[int, bytes] = {}

    def encode(self, *, version: int) -> bytes:
        """Return the bytes of the body."""
        body = self._bytes.get(version)
        if body is None:
            body = self._bytes[version] = encode_message(self._message, version)
        return body

    def flexible_version_q(self, version: int) -> bool:
        """Return whether a version has tagged fields."""
        return bool(self._message.flexible_version_q(version))


@lru_cache(maxsize=500)
def _encoded(kind: Any, version: int, fields: tuple[tuple[str, Any], ...]) -> bytes:
    return encode_message(kind(**dict(fields)), version)
