"""`for record in consumer`: one record at a time, the position moving with each."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tandem_kafka.consumer.publication import Handed, Publication
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.shared.partition import AssignedPartition, Consumed, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord

__all__ = ["Iteration", "Run"]


class Run:
    """Records of one partition that the loop is given one by one.

    The partition's `consumed` meanwhile, so that a record costs no new position: `position` is
    made when it is asked for.

    Attributes:
        records: All of them.
        given: How many the loop has been given. The one store that moves the position.
    """

    __slots__ = ("_made", "base", "given", "handed", "records", "state", "version")

    def __init__(
        self, state: AssignedPartition, handed: Handed, records: Sequence[ConsumerRecord]
    ) -> None:
        self.state = state
        self.handed = handed
        self.base = handed.base
        self.records = list(records)
        self.given = 0
        #: The version of the subscription in which the partition was last seen to be ours.
        self.version = -1
        self._made = (0, handed.before)

    @property
    def position(self) -> Position:
        """Where the loop is; the same object until it moves on."""
        given = self.given
        made, position = self._made
        if made != given:
            position = self._position(given)
            self._made = (given, position)
        return position

    def _position(self, given: int) -> Position:
        if given == len(self.records):
            return self.handed.after
        last = self.records[given - 1]
        return Position(last.offset + 1, last.leader_epoch)


class Iteration:
    """Records that poll() would have returned at once, and that the loop is given one by one.

    Only what the loop has been given counts as returned, so a commit covers no more, and poll()
    begins with the rest.
    """

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._runs: deque[Run] = deque()

    def add(self, batch: ConsumerRecords, publication: Publication) -> None:
        """Take over a batch, in place of returning it."""
        for tp, records in batch.items():
            state = self._subscription.assigned.get(tp)
            handed = state.consumed if state is not None else None
            if state is not None and isinstance(handed, Handed) and len(records):
                run = Run(state, handed, records)
                state.consumed = run
                self._runs.append(run)
        # The runs have positions of their own; this moves partitions without records to give.
        publication.done = True

    def ready(self) -> Run | None:
        """Return the run whose next record is due, None when there is none."""
        runs = self._runs
        for _ in range(len(runs)):
            run = runs[0]
            if run.given == len(run.records) or not self._valid(run):
                _end(run)
                runs.popleft()
            elif not run.state.returnable:
                runs.rotate(-1)  # paused: what is left waits
            else:
                return run
        return None

    def end(self) -> None:
        """The user goes on with poll(), which begins where the loop has stopped."""
        while self._runs:
            _end(self._runs[0])
            self._runs.popleft()

    def _valid(self, run: Run) -> bool:
        """Tell whether no seek, no rebalance and no poll() has come in between."""
        state, subscription = run.state, self._subscription
        if state.base is not run.base or state.consumed is not run:
            return False
        version = subscription.version
        if version != run.version:
            if subscription.assigned.get(state.tp) is not state:
                return False
            run.version = version
        return True


def _end(run: Run) -> None:
    """Leave the position where it is, without the records."""
    if run.state.consumed is run:
        run.state.consumed = Consumed(run.base, run.position)
