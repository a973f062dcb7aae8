"""How many records a fetch acquires, and for how long a broker may park it.

A record that is released without having been handed out counts as delivered, so that after some
times nobody gets it. What is acquired should therefore be handed out:

- What a call asks for is acquired, and nothing else, until the application has shown its pace.
- What it will soon handle is acquired ahead: at most a part of what it has handled so far, so that
  a program that ends after a few records leaves few behind.
- After a slow record, after a release, and while a broker delivers records again, nothing is
  acquired ahead: what waits behind a slow record is kept from others.
- What cannot be given to each broker is fetched from one broker after the other.
"""

from __future__ import annotations

from typing import Final

from tandem_kafka.config import Config
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.share.session import ShareSession
from tandem_kafka.state.locked_records import CAREFUL_LOCKS, SHARE_OF_LOCK, LockedRecords
from tandem_kafka.state.locks import LockedPartition

log = client_logger(__name__)

#: The most records of one fetch, however fast the handler is.
MOST_RECORDS: Final = 10_000
#: For how much of the handler's time records are acquired ahead: longer than a fetch takes. What
#: one member has, the others have not.
_AHEAD_MS: Final = 200
#: What is acquired ahead is at most this part of what was handled.
_PART_OF_HANDLED: Final = 4
#: So often is what is asked for doubled, while only offsets without a record come.
_MOST_DOUBLED: Final = 9
#: For how many locks an application keeps more than its next call returns.
_KEPT_LOCKS: Final = 2
#: For how long a fetch is parked while the application works on records, or another broker is next.
_FIRST_PARKED_MS: Final = 5
_LONGEST_PARKED_MS: Final = 100
#: So many empty responses park a fetch for the longest time.
_MOST_EMPTY: Final = 8
#: The acquire modes of KIP-1206.
_WHOLE_BATCHES: Final = 0
_RECORD_LIMIT: Final = 1


class FetchLimits:
    """The limits of fetches, from the pace of the application.

    Attributes:
        retried: Whether the last response with records had some that were delivered before.
        turns: How many brokers are asked one after the other; 1 if all are asked at once.
        empty: The number of responses without records since the last with some, of all brokers.
    """

    def __init__(self, config: Config, records: LockedRecords) -> None:
        self._config = config
        self._records = records
        self.retried = False
        self.turns = 1
        self.empty = 0
        self._exact = True
        self._careful_until_ms = self._warned_ms = -1

    def note_unused(self, partition: LockedPartition, now_ms: int) -> None:
        """Note that records were released because they had waited for too long."""
        self._careful_until_ms = now_ms + CAREFUL_LOCKS * self._records.lock_ms
        if now_ms >= partition.usable_until_ms or not self.most_kept(partition, now_ms):
            self._records.unused_ms = now_ms  # none is left for the next call

    def records(self, brokers: int, *, fetching: bool) -> int:
        """Return how many records to acquire of a broker.

        Args:
            brokers: The number of brokers that records are fetched from.
            fetching: Whether a fetch is in flight.
        """
        if self._records.resting:
            return 0
        waiting, ahead = self._records.waiting(), self._ahead(brokers)
        left = max(ahead, 0 if waiting else self._asked()) - waiting
        in_turn = ahead < brokers
        self.turns = brokers if in_turn else 1
        self._exact = ahead < self._config.max_poll_records
        if left <= 0 or (in_turn and fetching):
            return 0
        return left if in_turn else max(1, left // brokers)

    def _asked(self) -> int:
        """Return how many records the application waits for."""
        records = self._records
        if records.comes_too_late:
            if self._warned_ms < records.unused_ms:
                self._warned_ms = records.unused_ms
                log.warning(
                    "records waited too long for poll(), and were released: %s", records.advice
                )
            return 0
        # A compacted log has many offsets without a record.
        return min(records.asked, self._config.max_poll_records) << min(
            records.holes, _MOST_DOUBLED
        )

    def _ahead(self, brokers: int) -> int:
        """Return how many records may wait that the application has not asked for."""
        records, pace = self._records, self._records.pace
        now_ms, soon_ms = records.clock.now_ms(), self._records.lock_ms // SHARE_OF_LOCK
        if pace.per_ms is None or self.retried:
            return 0
        if now_ms < max(pace.careful_until_ms, self._careful_until_ms):
            return 0
        if not records.asked and now_ms - pace.given_ms >= soon_ms:
            return 0  # it is slow right now
        most, soon = int(pace.per_ms * min(_AHEAD_MS, soon_ms)), int(pace.per_ms * soon_ms)
        most = max(most, brokers if soon >= brokers else min(1, soon))
        return min(most, pace.handled // _PART_OF_HANDLED, MOST_RECORDS)

    def most_kept(self, partition: LockedPartition, now_ms: int) -> int:
        """Return how many records may wait in all, of those whose locks are to be renewed.

        All that waits behind an application that is slow for two locks. Later, what its next call
        returns, for as long as a member may be without one; the others are for other members. What
        was delivered before is kept as long: it might have no delivery left.
        """
        waited_ms, before = now_ms - partition.since_ms, any(n > 1 for _, _, n in partition.ranges)
        if waited_ms >= self._config.max_poll_interval_ms:
            return 0
        if before or waited_ms < _KEPT_LOCKS * self._records.lock_ms:
            return MOST_RECORDS
        return min(self._records.wanted, self._config.max_poll_records)

    def fields(self, limit: int, held_ms: int) -> dict[str, int]:
        """Return the fields of a fetch."""
        config = self._config
        return {
            "max_wait_ms": held_ms,
            "min_bytes": config.fetch_min_bytes,
            "max_bytes": config.fetch_max_bytes,
            "max_records": limit,
            "batch_size": min(limit, config.max_poll_records),
            "share_acquire_mode": _RECORD_LIMIT if self._exact else _WHOLE_BATCHES,
        }

    def held_ms(self, session: ShareSession) -> int:
        """Return for how long a broker may park a fetch.

        Invariant: an acknowledgement waits behind a parked fetch, and so does the next record once
        a partition has as many locks as the broker allows, or if another broker has it. While the
        application works on records, and in turn, a fetch is therefore parked for a short time
        only, a longer one after each empty response, or after one of each broker.
        """
        # Half of the lock is for the application, and counts from the request on.
        most_ms = min(self._config.fetch_max_wait_ms, self._records.lock_ms // 8) // self.turns
        if session.busy:
            most_ms = min(most_ms, _LONGEST_PARKED_MS)
        elif self.turns == 1:
            return most_ms
        # Not the fewest of any broker: one that is down, or asked no more, would keep its number.
        empty = session.empty if self.turns == 1 else self.empty // self.turns
        return min(most_ms, _FIRST_PARKED_MS << min(empty, _MOST_EMPTY))
