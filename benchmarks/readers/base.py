"""What a reader is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Reader", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where to read.

    Attributes:
        bootstrap: Addresses of the brokers.
        topic: The topic.
        partitions: How many partitions it has; all are read, without a group.
        from_end: Start behind the last record instead of at the first.
        eager: The next record matters more than a full batch.

    """

    bootstrap: str
    topic: str
    partitions: int
    from_end: bool = False
    eager: bool = False


class Reader(Protocol):
    """One client as its users write it; its constructor takes a `Source`.

    A call of `values` is what an application does in one turn of its loop: poll once, look at
    every record, take its value.
    """

    def values(self, timeout_s: float) -> list[bytes]:
        """The values of the next records, none when the time is over."""
        ...

    def close(self) -> None:
        """Close the client."""
        ...
