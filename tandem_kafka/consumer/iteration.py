"""`for record in consumer`: one record at a time, the position moving with each."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.shared.partition import AssignedPartition, Consumed, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord, OffsetAndMetadata

__all__ = ["Iteration"]


class _Run:
    """Records of one partition that the loop has not been given yet.

    Stands for the partition's `consumed` while they are given out, so that a record costs no
    new position: `position` is made when somebody asks.
    """

    __slots__ = ("_made", "base", "end", "left", "next", "records", "state", "version")

    def __init__(
        self, state: AssignedPartition, base: Position, records: Sequence[ConsumerRecord]
    ) -> None:
        self.state = state
        self.base = base
        self.records = iter(records)
        self.left = len(records)
        self.end = state.position or base
        #: Offset and leader epoch: of the first record, later behind the last one given out.
        self.next = (records[0].offset, records[0].leader_epoch)
        #: The version of the subscription in which the partition was last seen to be ours.
        self.version = -1
        self._made = (self.next, Position(*self.next))

    @property
    def position(self) -> Position:
        """Where the loop is; the same object until it moves on."""
        at, position = self._made
        if at is not self.next:
            at = self.next
            position = Position(*at)
            self._made = (at, position)
        return position


class Iteration:
    """What poll() returned and the loop has not been given yet.

    A commit must not cover a record that the loop has not been given, so the position, which
    poll() moved behind the whole batch, is set back and moves record by record.
    """

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._runs: deque[_Run] = deque()

    def add(self, batch: ConsumerRecords) -> None:
        """Take a batch over and set its positions back."""
        for tp, records in batch.items():
            state = self._subscription.assigned.get(tp)
            if state is not None and state.base is not None and len(records):
                run = _Run(state, state.base, records)
                state.consumed = run
                self._runs.append(run)

    def next(self) -> ConsumerRecord | None:
        """Return the next record and move the position behind it; None when there is none."""
        runs = self._runs
        for _ in range(len(runs)):
            run = runs[0]
            if not self._valid(run):
                runs.popleft()
            elif not run.state.returnable:
                runs.rotate(-1)  # paused: what is left waits
            else:
                record = next(run.records)
                self._move(run, 1, record)
                return record
        return None

    def drain(self, limit: int) -> ConsumerRecords:
        """Return up to `limit` of what is left as a batch: the user goes on with poll()."""
        batch = ConsumerRecords()
        for run in tuple(self._runs):
            if not self._valid(run):
                self._runs.remove(run)
            elif limit > 0 and run.state.returnable:
                records = list(islice(run.records, limit))
                self._move(run, len(records), records[-1])
                limit -= len(records)
                batch[run.state.tp] = records
                position = run.state.position or run.end
                next_offset = OffsetAndMetadata(position.offset, "", position.leader_epoch)
                batch.next_offsets[run.state.tp] = next_offset
        return batch

    def _move(self, run: _Run, count: int, last: ConsumerRecord) -> None:
        """Set the position behind `count` more records."""
        run.left -= count
        if run.left:
            run.next = (last.offset + 1, last.leader_epoch)
        else:
            self._runs.remove(run)
            run.state.consumed = Consumed(run.base, run.end)

    def _valid(self, run: _Run) -> bool:
        """Tell whether no seek and no rebalance has come in between."""
        state, subscription = run.state, self._subscription
        if state.base is not run.base:
            return False
        version = subscription.version
        if version != run.version:
            if subscription.assigned.get(state.tp) is not state:
                return False
            run.version = version
        return True
