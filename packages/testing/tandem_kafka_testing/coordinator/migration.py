"""Conversion of a group with members from one protocol to the other.

Upgrade: a KIP-848 member joins a classic group of consumers. The classic members continue in the
KIP-848 group (`classic_members.py`). Downgrade: the last KIP-848 member leaves. The remaining
classic members are a classic group again, which rebalances.
"""

from __future__ import annotations

from kafka import errors

from tandem_kafka_testing.coordinator import consumer_protocol
from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tandem_kafka_testing.coordinator.classic_group_member import ClassicMember
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.members import JOIN_EPOCH, ConsumerGroupMember, Partitions
from tandem_kafka_testing.coordinator.records import ClassicMemberMetadata
from tandem_kafka_testing.coordinator.requests import ConsumerHeartbeat
from tandem_kafka_testing.coordinator.step import Error


class Migration:
    """The conversions of one group."""

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
        """Convert a classic group with members; returns the error if that is not allowed."""
        classic, settings = self._classic, self._context.settings
        most = settings.consumer_max_size
        if (
            settings.migration_policy not in ("upgrade", "bidirectional")
            or classic.protocol_type != consumer_protocol.CONSUMER
            or (most and len(classic.members) > most)
        ):
            return errors.GroupIdNotFoundError
        try:
            members = [self._upgraded(member) for member in classic.members.values()]
            stale_ownership = {
                member.member_id: self._may_own(classic.members[member.member_id]) - member.assigned
                for member in members
            }
        except consumer_protocol.MALFORMED:
            return errors.GroupIdNotFoundError
        generation = classic.generation
        classic.dissolve(errors.RebalanceInProgressError)
        self._step.note(f"becomes a KIP-848 group at epoch {generation}")
        self._consumer.begin(generation, members, stale_ownership)
        return None

    def _upgraded(self, member: ClassicMember) -> ConsumerGroupMember:
        classic = self._classic
        subscription = consumer_protocol.read_subscription(self._metadata(member))
        return ConsumerGroupMember(
            member.member_id,
            member.instance_id,
            epoch=classic.generation,
            previous_epoch=classic.generation,
            topics=subscription.topics,
            rack=subscription.rack,
            rebalance_ms=member.rebalance_ms,
            assigned=self._existing(consumer_protocol.read_assignment(member.assignment)),
            classic=ClassicMemberMetadata(member.session_ms, tuple(member.protocols.items())),
        )

    def _may_own(self, member: ClassicMember) -> Partitions:
        return (
            consumer_protocol.read_assignment(member.last_assignment)
            | consumer_protocol.read_subscription(self._metadata(member)).owned
        )

    def _metadata(self, member: ClassicMember) -> bytes:
        name = self._classic.protocol
        return member.protocols.get(name) or next(iter(member.protocols.values()))

    def _existing(self, partitions: Partitions) -> Partitions:
        counts = self._context.topics()
        return frozenset(tp for tp in partitions if tp.partition < counts.get(tp.topic, 0))

    def downgrade(self, joined: str | None = None) -> None:
        """Convert a KIP-848 group with only classic members.

        Args:
            joined: The static member that replaced the last KIP-848 member and has its partitions,
                so that no rebalance is needed.
        """
        consumer, classic = self._consumer, self._classic
        generation = consumer.epoch

        def stale_ownership(member_id: str) -> Partitions:
            return consumer.stale_ownership.get(member_id, frozenset())

        members = [
            ClassicMember(
                member.member_id,
                member.instance_id,
                dict(member.classic.protocols),
                member.classic.session_timeout_ms,
                member.rebalance_ms,
                assignment=consumer_protocol.write_assignment(
                    consumer.target.get(member.member_id, ())
                ),
                # Partitions that it lost without notice are still its own, through any conversion.
                is_new=False,
                last_assignment=consumer_protocol.write_assignment(
                    member.assigned | stale_ownership(member.member_id)
                ),
            )
            for member in consumer.members.values()
            if member.classic is not None
        ]
        consumer.dissolve()
        self._step.note(f"becomes a classic group of generation {generation}")
        classic.begin(generation, consumer_protocol.CONSUMER, members)
        if joined is None:
            classic.rebalance()
