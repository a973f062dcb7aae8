"""What a reader is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["CountingReader", "GroupReader", "Reader", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where to read.

    Attributes:
        bootstrap: Addresses of the brokers.
        topic: The topic.
        partitions: How many of its partitions are read, from number 0 on.
        size: Bytes of each value; 0 where they differ.
        from_end: Start behind the last record instead of at the first.
        eager: The next record matters more than a full batch.
        authority: The certificate to trust; with it the brokers are spoken to by TLS.
        group: Subscribe as its member, instead of naming the partitions.
        beside: How many partitions without records are assigned beside, behind the others.

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
    """One client as its users write it; its constructor takes a `Source`.

    A call of `values` is what an application does in one turn of its loop: poll once, look at
    every record, take its value.
    """

    def values(self, timeout_s: float) -> Sequence[bytes]:
        """The values of the next records, none when the time is over."""
        ...

    def close(self) -> None:
        """Close the client."""
        ...


@runtime_checkable
class CountingReader(Protocol):
    """A reader for which records are no objects."""

    def count(self, timeout_s: float) -> tuple[int, int]:
        """The number of the next records, and the bytes of their values."""
        ...


@runtime_checkable
class GroupReader(Protocol):
    """A reader that can be a member of a group."""

    def assigned(self) -> int:
        """How many partitions it has."""
        ...
