"""Chooses how many bytes to fetch of a partition: more while full responses arrive quickly.

Each response has fixed costs: an iteration of the network thread and a handover of the GIL. A fast
reader therefore benefits from large responses. Over a slow link, a large response would delay other
partitions and finally exceed the timeout of the request.
"""

from __future__ import annotations

from typing import Final

from tandem_kafka.state.partition import AssignedPartition

#: The initial and minimum size, unless the option is smaller.
FIRST_BYTES: Final = 1_048_576

#: A response that takes less than the first is quick, one that takes more than the second is slow.
_QUICK_MS: Final = 250
_SLOW_MS: Final = 2_000


class FetchSizing:
    """Doubles and halves the fetch size of partitions.

    Args:
        limit: `max_partition_fetch_bytes`.

    Attributes:
        limit: The largest size.
        first: The initial and smallest size.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.first = min(FIRST_BYTES, limit)

    def bytes_for(self, state: AssignedPartition) -> int:
        """Return the current fetch size of a partition."""
        return state.fetch_bytes or self.first

    def learn(self, state: AssignedPartition, asked: int, got: int, took_ms: float) -> None:
        """Adjust the fetch size after a response with `got` of `asked` bytes, after `took_ms`.

        A response below half of the size changes nothing: the broker had no more data, or the
        whole response was full. An unchanged size need not be sent to the broker again.
        """
        if 2 * got < asked:
            return
        if took_ms < _QUICK_MS:
            state.fetch_bytes = min(2 * asked, self.limit)
        elif took_ms > _SLOW_MS:
            state.fetch_bytes = max(asked // 2, self.first)
