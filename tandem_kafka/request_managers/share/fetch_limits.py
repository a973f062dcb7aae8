"""How many records a fetch acquires, and for how long a broker may park it."""

from __future__ import annotations

from typing import Final

from tandem_kafka.config import Config
from tandem_kafka.request_managers.share.session import ShareSession
from tandem_kafka.shared.locked_records import LockedRecords

#: The most records of one fetch, however fast the handler is.
MOST_RECORDS: Final = 10_000
#: The limit before the pace of the handler is known.
FIRST_RECORDS: Final = 50
#: For how much of the handler's time a fetch acquires records: longer than a fetch takes. What one
#: member has, the others have not.
_AHEAD_MS: Final = 200
#: A record that the application does not begin with within this share of its lock is not fetched.
_SHARE_OF_LOCK: Final = 4
#: The lock's duration of Kafka's default, before a response has told it.
_DEFAULT_LOCK_MS: Final = 30_000
#: For how long a fetch is parked while the application works on records.
_FIRST_PARKED_MS: Final = 5
_LONGEST_PARKED_MS: Final = 100
#: The acquire modes of KIP-1206.
_WHOLE_BATCHES: Final = 0
_RECORD_LIMIT: Final = 1


class FetchLimits:
    """The limits of fetches, from the pace of the application.

    Attributes:
        lock_ms: How long a lock lasts, as the last response has told.
        unused: Whether records were released unused since the application last asked for some.
    """

    def __init__(self, config: Config, records: LockedRecords) -> None:
        self._config = config
        self._records = records
        self.lock_ms = _DEFAULT_LOCK_MS
        self.unused = False

    def records(self, brokers: int, *, fetching: bool) -> int:
        """Return how many records to acquire of a broker: those that the application soon handles.

        Invariant: a record that is released unused counts as delivered, so that after some times
        nobody gets it. An application that takes a large part of a lock for each record gets one
        when it asks, from one broker at a time.

        Args:
            brokers: The number of brokers that records are fetched from.
            fetching: Whether a fetch is in flight.
        """
        records, pace = self._records, self._records.pace
        if records.resting:
            return 0
        if records.asking:
            self.unused = False
        enough_ms = self.lock_ms // _SHARE_OF_LOCK
        if pace is None:
            return FIRST_RECORDS if records.asking else 0
        if pace * enough_ms < brokers or self.unused:
            return 1 if records.asking and not fetching else 0
        most = max(1, min(int(pace * min(_AHEAD_MS, enough_ms)), MOST_RECORDS))
        left = most - records.waiting()
        return max(1, left // brokers) if left > 0 else 0

    def fields(self, limit: int, held_ms: int) -> dict[str, int]:
        """Return the fields of a fetch."""
        config = self._config
        strict = limit < config.max_poll_records
        return {
            "max_wait_ms": held_ms,
            "min_bytes": config.fetch_min_bytes,
            "max_bytes": config.fetch_max_bytes,
            "max_records": limit,
            "batch_size": min(limit, config.max_poll_records),
            "share_acquire_mode": _RECORD_LIMIT if strict else _WHOLE_BATCHES,
        }

    def held_ms(self, session: ShareSession) -> int:
        """Return for how long a broker may park a fetch.

        Invariant: an acknowledgement waits behind a parked fetch, and so does the next record once
        a partition has as many locks as the broker allows. While the application works on records,
        a fetch is therefore parked for a short time only, a longer one after each empty response.
        """
        # Half of the lock is for the application, and counts from the request on.
        most_ms = min(self._config.fetch_max_wait_ms, self.lock_ms // 8)
        if not session.busy:
            return most_ms
        return min(most_ms, _LONGEST_PARKED_MS, _FIRST_PARKED_MS << session.empty)
