"""How many bytes to ask of a partition: more while full answers come quickly.

What a response costs beside its bytes (a turn of the network thread, a hand-over of the GIL) does
not depend on its size, so that a fast reader is better off with large ones. A large one over a
slow link would take its time from the other partitions, and in the end run into the request's
timeout.
"""

from __future__ import annotations

from typing import Final

from tandem_kafka.shared.partition import AssignedPartition

__all__ = ["FIRST_BYTES", "FetchSizing"]

#: Asked of a partition at first, and at least, as far as the option allows it.
FIRST_BYTES: Final = 1_048_576

#: An answer that took less is quick, one that took more than the other is slow.
_QUICK_MS: Final = 250
_SLOW_MS: Final = 2_000


class FetchSizing:
    """Doubles and halves what is asked of a partition.

    Args:
        limit: `max_partition_fetch_bytes`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._first = min(FIRST_BYTES, limit)

    def bytes_for(self, state: AssignedPartition) -> int:
        """Return how much to ask of a partition now."""
        return state.fetch_bytes or self._first

    def learn(self, state: AssignedPartition, asked: int, got: int, took_ms: float) -> None:
        """Take note of an answer: it held `got` of the `asked` bytes, after `took_ms`.

        One that is not nearly full says nothing: the broker had no more, or the whole response
        was full. What stays as it is need not be named to the broker again.
        """
        if 2 * got < asked:
            return
        if took_ms < _QUICK_MS:
            state.fetch_bytes = min(2 * asked, self._limit)
        elif took_ms > _SLOW_MS:
            state.fetch_bytes = max(asked // 2, self._first)
