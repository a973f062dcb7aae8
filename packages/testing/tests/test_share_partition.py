"""A share partition: acquiring, acknowledging, locks, and what its next leader knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kafka import errors

from tandem_kafka_testing.coordinator.settings import GroupSettings
from tandem_kafka_testing.share.acquiring import Acquired, Acquisition
from tandem_kafka_testing.share.in_flight import Span
from tandem_kafka_testing.share.partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    SharePartition,
)
from tandem_kafka_testing.share.persisted import PersistedState

LOCK_MS = 30_000


class Share:
    """A share partition, and a log of batches with five records each."""

    def __init__(self, batches: int = 4, **settings: Any) -> None:
        self.settings = GroupSettings(**settings)
        self.saved = PersistedState()
        self.log = [Span(5 * number, 5 * number + 4) for number in range(batches)]
        self.now_ms = 0
        self.lead()

    def lead(self) -> None:
        """Let another leader begin with what was written."""
        self.partition = SharePartition(self.saved, 0, lambda: self.settings)

    def acquire(
        self,
        member: str = "m",
        max_records: int = 500,
        batch_size: int = 500,
        *,
        exact: bool = False,
        aborted: Sequence[Span] = (),
    ) -> list[tuple[int, int, int]]:
        offset = self.partition.fetch_offset
        read = [span for span in self.log if span.last >= offset]
        request = Acquisition(member, max_records, batch_size, exact)
        found = self.partition.acquire(request, offset, read, self.now_ms, aborted)
        assert all(isinstance(each, Acquired) for each in found)
        return [tuple(each) for each in found]

    def acknowledge(self, first: int, last: int, *types: int, member: str = "m") -> Any:
        batch = Acknowledgement(first, last, types)
        error = self.partition.acknowledge(member, [batch], self.now_ms)
        self.partition.finish()
        return error

    def expire(self, at_ms: int) -> int:
        """Let time pass; returns the number of releases."""
        self.now_ms, count = at_ms, 0
        while self.partition.expire(self.now_ms):
            count += 1
        return count


def test_the_start_moves_over_accepted_and_rejected_records() -> None:
    share = Share()
    share.acquire()
    assert share.acknowledge(1, 4, ACCEPT) is None
    assert share.partition.start_offset == 0
    assert share.acknowledge(0, 0, REJECT) is None
    assert share.partition.start_offset == 5
    assert share.acknowledge(5, 7, ACCEPT, GAP, RELEASE) is None
    assert share.partition.start_offset == 7
    assert share.acknowledge(8, 19, ACCEPT) is None
    assert share.acquire() == [(7, 7, 2)]
    assert share.acknowledge(7, 7, ACCEPT) is None
    assert share.partition.start_offset == 20
    assert share.partition.in_flight == 0


def test_records_stay_acquired_until_the_acknowledgement_is_written() -> None:
    share = Share()
    share.acquire()
    release = [Acknowledgement(0, 4, [RELEASE])]
    assert share.partition.acknowledge("m", release, 0) is None
    assert share.acquire() == []
    assert share.partition.acknowledge("m", release, 0) is errors.InvalidRecordStateError
    share.partition.finish()
    assert share.acquire() == [(0, 4, 2)]


def test_a_batch_of_acknowledgements_is_atomic() -> None:
    share = Share()
    share.acquire(max_records=10)
    batches = [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 12, [ACCEPT])]
    assert share.partition.acknowledge("m", batches, 0) is errors.InvalidRequestError
    share.partition.finish()
    assert share.partition.start_offset == 0
    assert share.acknowledge(0, 9, ACCEPT) is None


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT, RENEW, GAP])
def test_only_the_member_that_has_acquired_a_record_acknowledges_it(kind: int) -> None:
    share = Share()
    assert share.acknowledge(0, 0, kind) is errors.InvalidRecordStateError
    share.acquire()
    assert share.acknowledge(0, 0, kind, member="other") is errors.InvalidRecordStateError
    assert share.acknowledge(0, 0, kind) is None


def test_renewing_needs_a_setting() -> None:
    share = Share(share_renew_acknowledge_enable=False)
    share.acquire()
    assert share.acknowledge(0, 0, RENEW) is errors.InvalidRecordStateError


def test_a_lock_ends_with_the_delivery_count_kept() -> None:
    share = Share()
    share.acquire(max_records=5)
    assert share.partition.lock_ends_ms == LOCK_MS
    assert share.expire(LOCK_MS - 1) == 0
    assert share.expire(LOCK_MS) == 1
    assert share.acquire(max_records=5) == [(0, 4, 2)]
    assert share.acknowledge(2, 2, ACCEPT) is None
    assert share.expire(2 * LOCK_MS) == 4


def test_a_renewed_lock_lasts_longer() -> None:
    share = Share()
    share.acquire(max_records=5)
    share.now_ms = 20_000
    assert share.acknowledge(0, 1, RENEW) is None
    assert share.expire(LOCK_MS) == 3
    assert share.partition.lock_ends_ms == 20_000 + LOCK_MS


@pytest.mark.parametrize(
    ("limit", "last"),
    [
        # With two deliveries, nothing is offered alone, but in ever smaller ranges from the second.
        (2, [(0, 4, 1)]),
        (3, [(0, 4, 2), *((offset, offset, 3) for offset in range(5))]),
        (5, [(2, 3, 4), *((offset, offset, 5) for offset in range(5))]),
    ],
)
def test_a_record_is_archived_after_the_last_delivery(
    limit: int, last: list[tuple[int, int, int]]
) -> None:
    share = Share(batches=1, share_delivery_count_limit=limit)
    counts: dict[int, int] = {}
    found = []
    while ranges := share.acquire():
        found += ranges
        for first, end, count in ranges:
            counts.update(dict.fromkeys(range(first, end + 1), count))
        share.partition.release("m")
    assert counts == dict.fromkeys(range(5), limit)
    assert {*last} <= {*found}
    assert share.partition.start_offset == 5


def test_a_new_leader_offers_what_was_not_acknowledged() -> None:
    share = Share()
    share.acquire(max_records=20)
    share.acknowledge(0, 1, ACCEPT)
    share.acknowledge(5, 6, RELEASE)
    share.acknowledge(8, 9, REJECT)
    share.lead()
    assert share.partition.start_offset == 2
    # The released ones keep their count; nobody wrote the others down.
    assert share.acquire() == [(2, 4, 1), (5, 6, 2), (7, 7, 1), (10, 19, 1)]


def test_a_new_leader_begins_anew_if_nothing_was_written() -> None:
    share = Share()
    share.acquire()
    share.partition = SharePartition(share.saved, 15, lambda: share.settings)
    assert share.acquire() == [(15, 19, 1)]


def test_a_compacted_batch_is_not_waited_for() -> None:
    share = Share()
    share.acquire(max_records=10)
    share.partition.release("m")
    offset = share.partition.fetch_offset
    request = Acquisition("m", 500, 500)
    found = share.partition.acquire(request, offset, share.log[1:], share.now_ms)
    assert found == [(5, 9, 2), (10, 19, 1)]
    assert share.acknowledge(5, 19, ACCEPT) is None
    assert share.partition.start_offset == 20
