"""Which batches a read_committed consumer leaves out: those of aborted transactions."""

from __future__ import annotations

from collections.abc import Iterable

from tandem_kafka.records.batches import BatchHeader

__all__ = ["AbortedTransactions", "is_abort_marker"]

#: A marker's key is two 16 bit numbers, its version and its kind; 0 is abort, 1 commit.
_KIND = slice(2, 4)
_ABORT = b"\x00\x00"


def is_abort_marker(key: bytes | None) -> bool:
    """Tell whether a control record with this key says that its transaction was aborted."""
    return key is not None and key[_KIND] == _ABORT


class AbortedTransactions:
    """Follows one partition's batches and knows which producers are inside an aborted transaction.

    The broker sends the aborted transactions that reach into the fetched range, as producer id
    and first offset. A producer's batches are hidden from that offset on, to its abort marker;
    what it wrote outside of transactions is not.
    """

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        #: The first one last.
        self._coming = sorted(aborted, key=lambda pair: -pair[1])
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Move on to a batch and tell whether it belongs to an aborted transaction."""
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        return header.transactional and header.producer_id in self._open

    def end(self, producer_id: int) -> None:
        """Note the abort marker of a producer."""
        self._open.discard(producer_id)
