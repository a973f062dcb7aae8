"""A group goes from one protocol to the other while it has members.

Up: a KIP-848 member comes to a classic group of consumers, and the group becomes one of its kind;
the classic members go on in it (`classic_members.py`). Down: the last KIP-848 member goes, and the
classic ones that are left are a classic group again, which rebalances.
"""

from __future__ import annotations

from kafka import errors

from tandem_kafka.testing.coordinator import embedded
from tandem_kafka.testing.coordinator.classic import ClassicGroup
from tandem_kafka.testing.coordinator.classic_group_member import ClassicMember
from tandem_kafka.testing.coordinator.consumer import ConsumerGroup
from tandem_kafka.testing.coordinator.context import GroupContext
from tandem_kafka.testing.coordinator.members import JOIN_EPOCH, ConsumerGroupMember, Partitions
from tandem_kafka.testing.coordinator.records import ClassicMemberMetadata
from tandem_kafka.testing.coordinator.requests import ConsumerHeartbeat
from tandem_kafka.testing.coordinator.step import Error

__all__ = ["Migration"]


class Migration:
    """That of one group."""

    def __init__(
        self, context: GroupContext, classic: ClassicGroup, consumer: ConsumerGroup
    ) -> None:
        self._context = context
        self._classic = classic
        self._consumer = consumer
        self._step = context.step

    def make_room(self, request: ConsumerHeartbeat) -> Error:
        """Make room for a KIP-848 member that joins; returns the error if that is not possible.

        A member that has joined needs no room, only a group of its protocol.
        """
        if request.epoch != JOIN_EPOCH:
            return None if self._consumer.exists else errors.GroupIdNotFoundError
        if self._classic.members:
            return self.upgrade()
        self._classic.dissolve(errors.UnknownMemberIdError)
        return None

    def upgrade(self) -> Error:
        """Make a KIP-848 group of a classic one that has members; returns why that may not be."""
        classic, settings = self._classic, self._context.settings
        most = settings.consumer_max_size
        if (
            settings.migration_policy not in ("upgrade", "bidirectional")
            or classic.protocol_type != embedded.CONSUMER
            or (most and len(classic.members) > most)
        ):
            return errors.GroupIdNotFoundError
        try:
            members = [self._upgraded(member) for member in classic.members.values()]
            unheard = {
                member.member_id: self._may_own(classic.members[member.member_id]) - member.assigned
                for member in members
            }
        except embedded.MALFORMED:
            return errors.GroupIdNotFoundError
        generation = classic.generation
        classic.dissolve(errors.RebalanceInProgressError)
        self._step.note(f"becomes a KIP-848 group at epoch {generation}")
        self._consumer.begin(generation, members, unheard)
        return None

    def _upgraded(self, member: ClassicMember) -> ConsumerGroupMember:
        classic = self._classic
        said = embedded.subscription(self._said(member))
        return ConsumerGroupMember(
            member.member_id,
            member.instance_id,
            epoch=classic.generation,
            previous_epoch=classic.generation,
            topics=said.topics,
            rack=said.rack,
            rebalance_ms=member.rebalance_ms,
            assigned=self._existing(embedded.assigned(member.assignment)),
            classic=ClassicMemberMetadata(member.session_ms, tuple(member.protocols.items())),
        )

    def _may_own(self, member: ClassicMember) -> Partitions:
        return embedded.assigned(member.told) | embedded.subscription(self._said(member)).owned

    def _said(self, member: ClassicMember) -> bytes:
        name = self._classic.protocol
        return member.protocols.get(name) or next(iter(member.protocols.values()))

    def _existing(self, partitions: Partitions) -> Partitions:
        counts = self._context.topics()
        return frozenset(tp for tp in partitions if tp.partition < counts.get(tp.topic, 0))

    def downgrade(self, joined: str | None = None) -> None:
        """Make a classic group of a KIP-848 one that has only classic members.

        Args:
            joined: The static member that took the place of the last KIP-848 one: as it has the
                other's partitions, nobody has to join again.
        """
        consumer, classic = self._consumer, self._classic
        generation = consumer.epoch

        def unheard(member_id: str) -> Partitions:
            return consumer.unheard.get(member_id, frozenset())

        members = [
            ClassicMember(
                member.member_id,
                member.instance_id,
                dict(member.classic.protocols),
                member.classic.session_timeout_ms,
                member.rebalance_ms,
                assignment=embedded.assignment(consumer.target.get(member.member_id, ())),
                # What it has not heard of yet it still owns, however often the group changes.
                is_new=False,
                told=embedded.assignment(member.assigned | unheard(member.member_id)),
            )
            for member in consumer.members.values()
            if member.classic is not None
        ]
        consumer.dissolve()
        self._step.note(f"becomes a classic group of generation {generation}")
        classic.begin(generation, embedded.CONSUMER, members)
        if joined is None:
            classic.rebalance()
