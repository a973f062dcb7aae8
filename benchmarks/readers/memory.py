"""Values in memory, without a client. With a handler, this measures the handler alone."""

from __future__ import annotations

from benchmarks.readers.base import Source

__all__ = ["Memory"]

_BATCH = 500


class Memory:
    """Returns the same values repeatedly."""

    def __init__(self, source: Source) -> None:
        self._values = [bytes(source.size) for _ in range(_BATCH)]

    def values(self, timeout_s: float) -> list[bytes]:  # noqa: ARG002 - what a reader takes
        """Return as many values as a poll."""
        return self._values

    def close(self) -> None:
        """Nothing to close."""
