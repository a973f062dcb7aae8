"""`for record in consumer`: one record at a time, the position moving with each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.shared.partition import AssignedPartition, Consumed, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord, OffsetAndMetadata

__all__ = ["Iteration"]


@dataclass(slots=True, eq=False)
class _Run:
    """Records of one partition that the loop has not been given yet."""

    state: AssignedPartition
    base: Position
    records: Iterator[ConsumerRecord]
    left: int
    end: Position


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
            state = self._subscription.assigned[tp]
            base, end = state.base, state.position
            if base is not None and end is not None:
                first = records[0]
                state.consumed = Consumed(base, Position(first.offset, first.leader_epoch))
                self._runs.append(_Run(state, base, iter(records), len(records), end))

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
                return self._hand_out(run)
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

    def _hand_out(self, run: _Run) -> ConsumerRecord:
        record = next(run.records)
        self._move(run, 1, record)
        return record

    def _move(self, run: _Run, count: int, last: ConsumerRecord) -> None:
        """Set the position behind `count` more records."""
        run.left -= count
        if run.left:
            position = Position(last.offset + 1, last.leader_epoch)
        else:
            position = run.end
            self._runs.remove(run)
        run.state.consumed = Consumed(run.base, position)

    def _valid(self, run: _Run) -> bool:
        """Tell whether no seek and no rebalance has come in between."""
        state = run.state
        return state.base is run.base and self._subscription.assigned.get(state.tp) is state
