"""Finds the batches of aborted transactions, which a read_committed consumer skips."""

from __future__ import annotations

from collections.abc import Iterable

from tandem_kafka.records.batches import BatchHeader

__all__ = ["AbortedTransactions", "is_abort_marker"]

#: The key of a marker has two 16-bit numbers: its version and its type (0 abort, 1 commit).
_KIND = slice(2, 4)
_ABORT = b"\x00\x00"


def is_abort_marker(key: bytes | None) -> bool:
    """Tell whether a control record with this key marks an aborted transaction."""
    return key is not None and key[_KIND] == _ABORT


class AbortedTransactions:
    """Tracks which producers are inside an aborted transaction, batch by batch.

    The broker sends the aborted transactions in the fetched range, as pairs of producer id and
    first offset. A producer's transactional batches are hidden from this offset up to its abort
    marker. Its other batches are not hidden.
    """

    __slots__ = ("_open", "_upcoming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        #: In descending order of their first offsets.
        self._upcoming = sorted(aborted, key=lambda pair: -pair[1])
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Move to a batch, and tell whether it belongs to an aborted transaction."""
        while self._upcoming and self._upcoming[-1][1] <= header.last_offset:
            self._open.add(self._upcoming.pop()[0])
        return header.transactional and header.producer_id in self._open

    def end(self, producer_id: int) -> None:
        """Process the abort marker of a producer."""
        self._open.discard(producer_id)
