"""No client at all: values that are there already. With a handler it is the handler alone."""

from __future__ import annotations

from benchmarks.readers.base import Source

__all__ = ["Memory"]

_BATCH = 500


class Memory:
    """The same values again and again."""

    def __init__(self, source: Source) -> None:
        self._values = [bytes(source.size) for _ in range(_BATCH)]

    def values(self, timeout_s: float) -> list[bytes]:  # noqa: ARG002 - what a reader takes
        """As many as a poll brings."""
        return self._values

    def close(self) -> None:
        """Nothing to close."""
