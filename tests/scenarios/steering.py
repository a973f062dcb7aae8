"""Applications that pause, resume and seek, and the checks of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError, NotAssignedError
from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition
from tests.scenarios.violation import Violation

if TYPE_CHECKING:
    from tests.scenarios.listener import CheckingListener
    from tests.scenarios.members import Members

__all__ = ["Steering"]


class Steering:
    """Pauses, resumes and seeks partitions of their owners.

    Attributes:
        random: A separate source of randomness, which leaves the other draws of a seed as they are.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._cluster = members.simulation.cluster
        self.random = Random(f"{members.simulation.seed}/steering")
        #: Paused partitions, by member.
        self._paused: set[tuple[int, TopicPartition]] = set()
        #: The offset of the last seek, by member and partition.
        self._sought: dict[tuple[int, TopicPartition], int] = {}

    # --- actions -------------------------------------------------------------------------------

    def act(self) -> KafkaConsumer:
        """Let a random member do one action; returns the member."""
        return self._act(self._steer)

    def pause_or_resume(self) -> None:
        """Let a random member pause a partition, or resume it if it is paused."""
        self._act(self._toggle)

    def _act(
        self, action: Callable[[KafkaConsumer, CheckingListener, TopicPartition], None]
    ) -> KafkaConsumer:
        member = self.random.choice(self._members.running)
        listener = self._members.listeners[member]
        steerable = [
            tp
            for tp in sorted(listener.owned - listener.being_revoked)
            if not self._members.scenario.recreated or self._knows_topic(member, tp)
        ]
        if not steerable:
            return member
        tp = self.random.choice(steerable)
        try:
            action(member, listener, tp)
        except NotAssignedError:
            if tp in member.assignment():
                raise  # else the partition was lost, and a call of the listener is due
        self.check_paused(member, listener)
        return member

    def _steer(self, member: KafkaConsumer, listener: CheckingListener, tp: TopicPartition) -> None:
        match self.random.randrange(8):
            case 0 | 1:
                self._pause(member, listener, tp)
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
                self._note(listener, tp, "sought to its beginning")
                member.seek_to_beginning(tp)
                self._note_seek(listener, tp, self._cluster.at(tp).log.start_offset)
            case _:
                self._seek_to_end(member, listener, tp)

    def _toggle(
        self, member: KafkaConsumer, listener: CheckingListener, tp: TopicPartition
    ) -> None:
        if (listener.number, tp) in self._paused:
            self._resume(member, listener, tp)
        else:
            self._pause(member, listener, tp)

    def _pause(self, member: KafkaConsumer, listener: CheckingListener, tp: TopicPartition) -> None:
        self._note(listener, tp, "is paused")
        member.pause(tp)
        self._paused.add((listener.number, tp))

    def _seek(
        self, member: KafkaConsumer, listener: CheckingListener, tp: TopicPartition, offset: int
    ) -> None:
        self._note(listener, tp, f"sought to {offset}")
        member.seek(tp, offset)
        self._note_seek(listener, tp, offset)

    def _seek_to_end(
        self, member: KafkaConsumer, listener: CheckingListener, tp: TopicPartition
    ) -> None:
        """Seek to the end; if its offset cannot be looked up in time, repeat the last seek."""
        first = self._end_of(tp)
        self._note(listener, tp, "sought to its end")
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
            raise Violation(
                f"{tp}: sought to the end, got {offset}; the end was {first} to {self._end_of(tp)}"
            )
        self._note_seek(listener, tp, offset)

    def _end_of(self, tp: TopicPartition) -> int:
        log = self._cluster.at(tp).log
        committed_only = self._members.scenario.transactions
        return log.last_stable_offset if committed_only else log.end_offset

    def _note_seek(self, listener: CheckingListener, tp: TopicPartition, offset: int) -> None:
        self._sought[listener.number, tp] = offset
        self._members.invariants.sought(listener, tp, offset)

    def _resume(
        self, member: KafkaConsumer, listener: CheckingListener, tp: TopicPartition
    ) -> None:
        self._note(listener, tp, "is resumed")
        member.resume(tp)
        self._paused.discard((listener.number, tp))

    def resume_all(self) -> None:
        """Resume every paused partition."""
        for member, listener in self._members.listeners.items():
            for number, tp in sorted(self._paused):
                if number == listener.number and tp in member.assignment():
                    self._resume(member, listener, tp)

    def _note(self, listener: CheckingListener, tp: TopicPartition, what: str) -> None:
        self._members.note(listener.number, f"{tp.topic}-{tp.partition} {what}")

    def _knows_topic(self, member: KafkaConsumer, tp: TopicPartition) -> bool:
        """Return whether a member knows the present topic id: its seeks then mean this topic."""
        state = member._core.engine.subscription.assigned.get(tp)
        return state is not None and state.topic_id == self._cluster.topics[tp.topic].topic_id

    # --- checks --------------------------------------------------------------------------------

    def forget(self, owner: CheckingListener, partitions: Iterable[TopicPartition]) -> None:
        """Forget pauses and seeks: partitions were revoked or assigned again."""
        for tp in partitions:
            self._paused.discard((owner.number, tp))
            self._sought.pop((owner.number, tp), None)

    def forget_all(self) -> None:
        """Forget every seek: the topic was recreated."""
        self._sought.clear()

    def check_not_paused(self, owner: CheckingListener, tp: TopicPartition) -> None:
        """Check that records do not belong to a paused partition."""
        if (owner.number, tp) in self._paused:
            raise Violation(f"records of {tp}, which member {owner.number} has paused")

    def check_paused(self, member: KafkaConsumer, owner: CheckingListener) -> None:
        """Check that paused partitions stay paused while they are assigned."""
        steerable = (owner.owned - owner.being_revoked) & member.assignment()
        paused = member.paused() & steerable
        expected = {tp for tp in steerable if (owner.number, tp) in self._paused}
        if paused != expected:
            raise Violation(f"member {owner.number}: {paused} paused, {expected} expected")
