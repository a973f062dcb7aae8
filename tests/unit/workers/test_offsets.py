"""The offsets of a partition against a model: never past an undone record, never a wrong mark."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tandem_kafka.types import OffsetAndMetadata, PositionStart, TopicPartition
from tandem_kafka.workers.done_map import DoneMap, decode
from tandem_kafka.workers.offsets import PartitionOffsets

TP = TopicPartition("orders", 0)
LIMIT = 64


class OffsetsMachine(RuleBasedStateMachine):
    """Hands out, finishes, commits, and restarts from the last commit."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: PartitionOffsets[int] = PartitionOffsets(LIMIT)
        self.offsets.begin(PositionStart(0))
        self.position = 0
        self.records: set[int] = set()  # offsets that hold a record
        self.produced_to = 0
        self.done: set[int] = set()
        self.marked: set[int] = set()
        self.committed: OffsetAndMetadata | None = None
        self.state: object = self.present  # at the last commit

    @property
    def present(self) -> object:
        return self.offsets.base, self.offsets.done_ranges()

    @rule(count=st.integers(1, 40), gap=st.sampled_from([0, 0, 1, 700]))
    def produce(self, count: int, gap: int) -> None:
        self.produced_to += gap
        self.records |= set(range(self.produced_to, self.produced_to + count))
        self.produced_to += count

    @rule(count=st.sampled_from([1, 1, 9, 60]))
    def hand_out(self, count: int) -> None:
        for offset in sorted(o for o in self.records if o >= self.position)[:count]:
            if self.offsets.was_done(offset, 3):
                assert offset in self.marked
                self.offsets.skip(offset, 3)
            elif offset < self.offsets.sure_until or self.offsets.has_room(offset):
                assert offset not in self.marked, "a marked record is handled again"
                self.offsets.add(offset, 3, offset)
            else:
                return
            self.position = offset + 1

    @rule()
    def reach(self) -> None:
        """The end of a poll: the log may have no record there, as behind a transaction."""
        following = (offset for offset in self.records if offset >= self.position)
        self.position = min(following, default=self.produced_to)
        if self.position:
            self.offsets.reach(self.position, 3)

    @precondition(lambda self: self.offsets.pending)
    @rule(data=st.data(), share=st.floats(0, 1))
    def finish(self, data: Any, share: float) -> None:
        pending = sorted(self.offsets.pending)
        count = max(1, round(share * len(pending)))
        for offset in data.draw(st.permutations(pending))[:count]:
            self.offsets.finish(offset)
            self.done.add(offset)

    @rule()
    def commit(self) -> None:
        snapshot = self.offsets.snapshot()
        if snapshot is None:
            return
        self.committed, left_out = snapshot.to_commit(TP)
        assert left_out == 0, "the map did not fit"
        assert len(self.committed.metadata) <= LIMIT
        self.offsets.committed_changes, self.state = snapshot.changes, self.present
        self.marked = {o for o in self.records if o < self.committed.offset}
        ranges = decode(TP, self.committed.offset, self.committed.metadata).ranges
        self.marked |= {o for o in self.records for s, e in ranges if s <= o < e}
        assert self.marked <= self.done, "a record is marked that is not done"

    @rule()
    def restart(self) -> None:
        self.done = set(self.marked)
        self.offsets = PartitionOffsets(LIMIT)
        self.position = 0
        if self.committed is not None:
            self.position = self.committed.offset
            done = decode(TP, self.committed.offset, self.committed.metadata)
            self.offsets.begin(PositionStart(self.position, 3), self.committed, done)
        else:
            self.offsets.begin(PositionStart(0))
        self.state = self.present

    @invariant()
    def the_end_is_committed_once_all_is_done(self) -> None:
        if not self.offsets.pending and self.offsets.snapshot() is None:
            assert self.present == self.state

    @invariant()
    def everything_before_the_base_is_done(self) -> None:
        base = self.offsets.base
        if base is not None:
            assert {o for o in self.records if o < base} <= self.done

    @invariant()
    def all_done_records_are_in_the_state(self) -> None:
        base = self.offsets.base
        ranges = self.offsets.done_ranges()
        known = {o for o in self.records if base is not None and o < base}
        known |= {o for o in self.records for s, e in ranges if s <= o < e}
        assert known == self.done


TestOffsets = OffsetsMachine.TestCase


@given(st.integers(0, 100), st.integers(1, 50))
def test_a_gap_at_the_end_moves_the_base(first: int, gap: int) -> None:
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    offsets.begin(PositionStart(first))
    offsets.add(first, -1, None)
    offsets.reach(first + 1 + gap, -1)
    assert offsets.base == first
    offsets.finish(first)
    assert offsets.base == first + 1 + gap


def test_nothing_is_committed_twice() -> None:
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    assert offsets.snapshot() is None
    offsets.begin(PositionStart(0), OffsetAndMetadata(0, "", -1))
    assert offsets.snapshot() is None
    offsets.add(0, 0, None)
    assert offsets.snapshot() is None
    offsets.finish(0)
    snapshot = offsets.snapshot()
    assert snapshot is not None
    offsets.committed_changes = snapshot.changes
    assert offsets.snapshot() is None
    assert offsets.snapshot(final=True) is not None, "the coordinator may have lost it"


def test_a_record_that_replaced_a_marked_one_is_not_done() -> None:
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    offsets.begin(PositionStart(10, 4), OffsetAndMetadata(10, "", 4), DoneMap(((12, 14),), 4))
    assert not offsets.was_done(12, 5)
    assert offsets.was_done(13, 4)


def test_the_commit_has_the_epoch_of_the_record_before_the_base() -> None:
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    offsets.begin(PositionStart(0))
    for offset, epoch in [(0, 2), (1, 2), (2, 5), (3, 5)]:
        offsets.add(offset, epoch, None)
    offsets.finish(0)
    first = offsets.snapshot()
    assert first is not None
    assert first.to_commit(TP)[0].leader_epoch == 2
    offsets.finish(1)
    offsets.finish(2)
    second = offsets.snapshot()
    assert second is not None
    assert second.to_commit(TP)[0].leader_epoch == 5


def commit_of(offsets: PartitionOffsets[None]) -> tuple[int, int]:
    snapshot = offsets.snapshot()
    assert snapshot is not None
    commit = snapshot.to_commit(TP)[0]
    return commit.offset, commit.leader_epoch


def test_behind_a_gap_the_commit_has_the_epoch_of_the_position() -> None:
    """An aborted transaction, for example. Its leader had another epoch than the record's."""
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    offsets.begin(PositionStart(0, 2))
    offsets.reach(3, 4)
    assert commit_of(offsets) == (3, 4)
    offsets.add(3, 5, None)
    offsets.reach(7, 6)
    assert commit_of(offsets) == (3, 4)
    offsets.finish(3)
    assert commit_of(offsets) == (7, 6)


def test_before_a_record_behind_a_gap_the_commit_has_the_epoch_of_that_record() -> None:
    """With that of the record before the gap, the broker would say that it ends in the gap."""
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    offsets.begin(PositionStart(0, 2), OffsetAndMetadata(0, "", 2), DoneMap(((8, 9),), 5))
    for offset, epoch in [(2, 3), (6, 4)]:
        offsets.add(offset, epoch, None)
    assert offsets.was_done(8, 5)
    offsets.skip(8, 5)
    offsets.add(11, 6, None)
    commits = []
    for offset in (2, 6, 11):
        commits.append(commit_of(offsets))
        offsets.finish(offset)
    assert commits == [(2, 3), (6, 4), (11, 6)]
    assert commit_of(offsets) == (12, 6)


def test_what_was_marked_in_a_later_epoch_is_marked_again() -> None:
    """The records before it are older: a commit with their epoch would make it a different one."""
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    offsets.begin(PositionStart(10, 4), OffsetAndMetadata(10, "", 4), DoneMap(((12, 14),), 5))
    offsets.add(10, 4, None)
    offsets.finish(10)
    snapshot = offsets.snapshot()
    assert snapshot is not None
    assert snapshot.done == DoneMap([(12, 14)], 5)
    again: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    again.begin(PositionStart(11, 4), snapshot.to_commit(TP)[0], snapshot.done)
    assert again.was_done(12, 5)


def test_a_gap_at_the_end_needs_no_room() -> None:
    """An aborted transaction, for example: no record is there, so no mark would say anything."""
    offsets: PartitionOffsets[None] = PartitionOffsets(LIMIT)
    offsets.begin(PositionStart(0))
    for offset in range(60):
        offsets.add(offset, -1, None)
    offsets.reach(60_000, -1)
    for offset in range(1, 60, 2):
        offsets.finish(offset)
    snapshot = offsets.snapshot()
    assert snapshot is not None
    commit, left_out = snapshot.to_commit(TP)
    assert left_out == 0
    assert commit.offset == 0
    for offset in range(0, 60, 2):
        offsets.finish(offset)
    assert offsets.base == 60_000
