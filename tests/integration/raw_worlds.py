"""Raw requests of one group, to real and simulated coordinators."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from tandem_kafka_testing.kafka.settings import OFFSETS_PARTITIONS
from tests.integration.brokers import Brokers
from tests.integration.coordinator.transactions import RawTransaction
from tests.integration.describing import classic_description_of, description_of
from tests.integration.heartbeating import RawMember
from tests.integration.joining import RawClassicMember, name_of
from tests.integration.offsets import RawOffsets

__all__ = ["RawWorld"]

PARTITIONS = 4
#: The settings of the real brokers.
_AS_REAL = {"assignment_interval_ms": 1_000, "classic_session_limits_ms": (500, 1_800_000)}


class RawWorld:
    """Raw members of one group.

    Attributes:
        brokers: The brokers, of which one coordinates the group.
        topic: A new topic of four partitions.
        group: The group.
    """

    def __init__(self, brokers: Brokers, **settings: Any) -> None:
        self.brokers = brokers
        self.connect, self.now_s, self.sleep = brokers.connect, brokers.now_s, brokers.sleep
        self.lasted, self.wait_until = brokers.lasted, brokers.wait_until
        self.topic = f"raw-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        brokers.create_topic(self.topic, PARTITIONS)
        brokers.simulate(self.group, **{**_AS_REAL, **settings})
        unknown_member = self.classic()
        brokers.await_coordinator(
            self.group, lambda: unknown_member.beat(1) == "UnknownMemberIdError"
        )
        self._await_topic()

    def _await_topic(self) -> None:
        """Wait until the coordinator knows the topic, which it learns after the topic's leader.

        Another group asks: the coordinators of all groups of one partition share what they know.
        """
        ours = _offsets_partition(self.group)
        names = (f"{self.group}-{number}" for number in itertools.count())
        group = next(name for name in names if _offsets_partition(name) == ours)
        member = RawMember(self.connect(), group, self.topic)
        self.wait_until(lambda: member.join().count)
        member.beat(-1)

    def classic(self, instance: str | None = None, **fields: Any) -> RawClassicMember:
        """Return a classic member with its own connection, before its first request."""
        return RawClassicMember(self.connect(), self.group, instance, **fields)

    def modern(self, instance: str | None = None) -> RawMember:
        """Return a KIP-848 member before its first heartbeat."""
        return RawMember(self.connect(), self.group, self.topic, instance)

    def offsets(self) -> RawOffsets:
        """Return a client that commits and fetches offsets of the topic."""
        return RawOffsets(self.connect(), self.group, self.topic)

    def transaction(self) -> RawTransaction:
        """Return a transaction of a new producer that commits offsets of the topic."""
        made = RawTransaction(self.connect(), self.group, self.topic)
        self.wait_until(made.begin)
        return made

    def error_and_state(self) -> tuple[str | None, str]:
        """Describe the group as a KIP-848 group; returns the error and the state."""
        group = description_of(self.connect(), self.group)
        return name_of(group.error_code), group.group_state

    def classic_members(self) -> set[str]:
        """Return the member ids of a classic group, including members that wait."""
        group = classic_description_of(self.connect(), self.group)
        return {each.member_id for each in group.members}

    def epochs(self) -> tuple[int, int]:
        """Return the epochs of the group and of its target."""
        group = description_of(self.connect(), self.group)
        return group.group_epoch, group.assignment_epoch

    def assigned_to(self, member: RawMember) -> int:
        """Return the number of partitions of a member in the description."""
        members = description_of(self.connect(), self.group).members
        (group,) = (each for each in members if each.member_id == member.member_id)
        return sum(len(topic.partitions) for topic in group.assignment.topic_partitions)


def _offsets_partition(group: str) -> int:
    """Return the partition of `__consumer_offsets` that has a group, as Kafka computes it."""
    number = 0
    for character in group:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return (number & 0x7FFFFFFF) % OFFSETS_PARTITIONS
