"""The interface of readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["CountingReader", "GroupReader", "Reader", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """The topic to read, and how.

    Attributes:
        bootstrap: Addresses of the brokers.
        topic: The topic.
        partitions: The number of partitions to read, beginning with number 0.
        size: Bytes of each value; 0 if they differ.
        from_end: Start at the end instead of the beginning.
        eager: Prefer low latency to full batches.
        authority: The CA certificate to trust; selects TLS.
        group: The group to join, instead of assigning partitions.
        beside: The number of additional partitions without records, after the others.

    """

    bootstrap: str
    topic: str
    partitions: int
    size: int = 0
    from_end: bool = False
    eager: bool = False
    authority: str | None = None
    group: str | None = None
    beside: int = 0


class Reader(Protocol):
    """One client, used as in an application; the constructor takes a `Source`.

    A call of `values` is one iteration of an application's loop: it polls once, and takes the value
    of every record.
    """

    def values(self, timeout_s: float) -> Sequence[bytes]:
        """Return the values of the next records; empty after the timeout."""
        ...

    def close(self) -> None:
        """Close the client."""
        ...


@runtime_checkable
class CountingReader(Protocol):
    """A reader that does not create objects for records."""

    def count(self, timeout_s: float) -> tuple[int, int]:
        """Return the number of the next records, and the bytes of their values."""
        ...


@runtime_checkable
class GroupReader(Protocol):
    """A reader that can be a member of a group."""

    def assigned(self) -> int:
        """Return the number of assigned partitions."""
        ...
