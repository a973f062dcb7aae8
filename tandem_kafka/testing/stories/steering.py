"""Applications that pause, resume and seek, and what must hold of that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError, NotAssignedError
from tandem_kafka.runtime import Random
from tandem_kafka.testing.stories.violation import Violation
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka.testing.stories.listener import Watched
    from tandem_kafka.testing.stories.members import Members

__all__ = ["Steering"]

#: A call that only changes the member's own state is over at once; it may take a default timeout.
PATIENCE_MS = 30_000


class Steering:
    """Moves positions and pauses partitions, of members that have them.

    Attributes:
        random: A source of its own: what else is drawn in a story stays what it was.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._cluster = members.simulation.cluster
        self.random = Random(f"{members.simulation.seed}/steering")
        #: What each member has paused since it was assigned.
        self._paused: set[tuple[int, TopicPartition]] = set()
        #: The offset of the last seek, by member and partition.
        self._sought: dict[tuple[int, TopicPartition], int] = {}

    # --- what applications do ------------------------------------------------------------------

    def act(self) -> KafkaConsumer:
        """Let a member do one thing; returns the member."""
        member = self.random.choice(self._members.awake)
        listener = self._members.listeners[member]
        steerable = [
            tp
            for tp in sorted(listener.owned - listener.leaving)
            if not self._members.scenario.recreated or self._knows(member, tp)
        ]
        if not steerable:
            return member
        tp = self.random.choice(steerable)
        try:
            self._steer(member, listener, tp)
        except NotAssignedError:
            if tp in member.assignment():
                raise  # else it has been lost, and the listener will hear of it
        self.check_paused(member, listener)
        return member

    def _steer(self, member: KafkaConsumer, listener: Watched, tp: TopicPartition) -> None:
        match self.random.randrange(8):
            case 0 | 1:
                self._note(listener, tp, "is paused")
                member.pause(tp)
                self._paused.add((listener.number, tp))
            case 2:
                self._resume(member, listener, tp)
            case 3 | 4:
                log = self._cluster.at(tp).log
                self._seek(
                    member, listener, tp, self.random.randint(log.start_offset, log.end_offset)
                )
            case 5:
                log = self._cluster.at(tp).log
                last = self._sought.get((listener.number, tp), 0)
                self._seek(member, listener, tp, max(last, log.start_offset))
            case 6:
                self._note(listener, tp, "is read from its beginning")
                member.seek_to_beginning(tp)
                self._has_sought(listener, tp, self._cluster.at(tp).log.start_offset)
            case _:
                self._seek_to_end(member, listener, tp)

    def _seek(
        self, member: KafkaConsumer, listener: Watched, tp: TopicPartition, offset: int
    ) -> None:
        self._note(listener, tp, f"is read from {offset}")
        member.seek(tp, offset)
        self._has_sought(listener, tp, offset)

    def _seek_to_end(self, member: KafkaConsumer, listener: Watched, tp: TopicPartition) -> None:
        """Where the end is, is known when it has been looked up; if it cannot be, go back."""
        first = self._end_of(tp)
        self._note(listener, tp, "is read from its end")
        member.seek_to_end(tp)
        timeout_ms = self.random.choice([200, 5_000])
        try:
            offset = self._members.timed(
                listener, timeout_ms, lambda: member.position(tp, timeout_ms)
            )
        except NotAssignedError:
            raise
        except KafkaError:
            offset = None
        if offset is None:
            self._seek(member, listener, tp, self._sought.get((listener.number, tp), 0))
            return
        if not first <= offset <= self._end_of(tp):
            raise Violation(f"{tp}: the end is {offset}, it was {first} to {self._end_of(tp)}")
        self._has_sought(listener, tp, offset)

    def _end_of(self, tp: TopicPartition) -> int:
        log = self._cluster.at(tp).log
        committed_only = self._members.scenario.transactions
        return log.last_stable_offset if committed_only else log.end_offset

    def _has_sought(self, listener: Watched, tp: TopicPartition, offset: int) -> None:
        self._sought[listener.number, tp] = offset
        self._members.invariants.sought(listener, tp, offset)

    def _resume(self, member: KafkaConsumer, listener: Watched, tp: TopicPartition) -> None:
        self._note(listener, tp, "goes on")
        member.resume(tp)
        self._paused.discard((listener.number, tp))

    def resume_all(self) -> None:
        """Let everything go on."""
        for member, listener in self._members.listeners.items():
            for number, tp in sorted(self._paused):
                if number == listener.number and tp in member.assignment():
                    self._resume(member, listener, tp)

    def _note(self, listener: Watched, tp: TopicPartition, what: str) -> None:
        self._members.note(listener.number, f"{tp.topic}-{tp.partition} {what}")

    def _knows(self, member: KafkaConsumer, tp: TopicPartition) -> bool:
        """Tell whether a member has heard which topic has the name now: its seeks mean that one."""
        state = member._core.engine.subscription.assigned.get(tp)  # noqa: SLF001
        return state is not None and state.topic_id == self._cluster.topics[tp.topic].topic_id

    # --- what must hold ------------------------------------------------------------------------

    def forget(self, owner: Watched, partitions: Iterable[TopicPartition]) -> None:
        """A partition that is given back, or assigned anew, is not paused, and has no seeks."""
        for tp in partitions:
            self._paused.discard((owner.number, tp))
            self._sought.pop((owner.number, tp), None)

    def forget_all(self) -> None:
        """No offset of a seek means anything any more."""
        self._sought.clear()

    def check_not_paused(self, owner: Watched, tp: TopicPartition) -> None:
        """Nothing is handed out of what is paused."""
        if (owner.number, tp) in self._paused:
            raise Violation(f"records of {tp}, which member {owner.number} has paused")

    def check_paused(self, member: KafkaConsumer, owner: Watched) -> None:
        """A partition stays paused as long as it is assigned."""
        if not self._members.scenario.steered:
            return
        steerable = (owner.owned - owner.leaving) & member.assignment()
        told = member.paused() & steerable
        asked = {tp for tp in steerable if (owner.number, tp) in self._paused}
        if told != asked:
            raise Violation(f"member {owner.number}: paused are {told}, it asked for {asked}")
