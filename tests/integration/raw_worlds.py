"""Two environments for raw requests of one group: a real and a simulated coordinator.

`--broker=real` or `--broker=simulated` runs one of the two.
"""

from __future__ import annotations

import itertools
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tandem_kafka.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.settings import OFFSETS_PARTITIONS
from tests.integration.connections import Connection, RealConnection, SimulatedConnection
from tests.integration.coordinator.transactions import (
    RawTransaction,
    RealTransaction,
    SimulatedTransaction,
)
from tests.integration.describing import classic_description_of, description_of
from tests.integration.heartbeating import RawMember
from tests.integration.joining import RawClassicMember, name_of
from tests.integration.offsets import RawOffsets
from tests.waiting import until

__all__ = ["RawWorld", "real_world", "simulated_world"]

PARTITIONS = 4
_INTERVAL_S = 0.02


class RawWorld(ABC):
    """A coordinator, and raw members of one group.

    Attributes:
        topic: A topic of four partitions.
        group: The group of those members.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.group = f"group-{uuid.uuid4().hex[:8]}"

    @abstractmethod
    def connect(self) -> Connection:
        """Return a new connection to the coordinator."""

    @abstractmethod
    def now_s(self) -> float:
        """Return the time of this world."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def lasted(self, since_s: float, seconds: float) -> bool:
        """Return whether so much time has passed: no less, and simulated time no more."""

    def classic(self, instance: str | None = None, **fields: Any) -> RawClassicMember:
        """Return a classic member with its own connection, before its first request."""
        return RawClassicMember(self.connect(), self.group, instance, **fields)

    def modern(self, instance: str | None = None) -> RawMember:
        """Return a KIP-848 member before its first heartbeat."""
        return RawMember(self.connect(), self.group, self.topic, instance)

    def offsets(self) -> RawOffsets:
        """Return a client that commits and fetches offsets of the topic."""
        return RawOffsets(self.connect(), self.group, self.topic)

    @abstractmethod
    def transaction(self) -> RawTransaction:
        """Return a transaction of a new producer that commits offsets of the topic."""

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

    def wait_until(self, done: Callable[[], object]) -> None:
        """Wait until `done()`."""
        for _ in until(done, now_s=self.now_s):
            self.sleep(_INTERVAL_S)


class _Real(RawWorld):
    def __init__(self, kafka: RealKafka, topic: str) -> None:
        super().__init__(topic)
        self._kafka = kafka
        self._connections: list[RealConnection] = []

    def connect(self) -> Connection:
        self._connections.append(RealConnection(self._kafka.bootstrap()))
        return self._connections[-1]

    def now_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lasted(self, since_s: float, seconds: float) -> bool:
        return self.now_s() - since_s >= seconds

    def transaction(self) -> RawTransaction:
        made = RealTransaction(self.connect(), self.group, self.topic)
        self.wait_until(made.begin)
        return made

    def await_coordinator(self) -> None:
        """Wait until the group has a coordinator that has read its log."""
        connection, unknown_member = self.connect(), self.classic()

        def serves() -> bool:
            request = FindCoordinatorRequest(
                key=self.group, key_type=0, coordinator_keys=[self.group]
            )
            connection.exchange(request, FindCoordinatorResponse, 4)
            return unknown_member.beat(1) == "UnknownMemberIdError"

        self.wait_until(serves)
        self._await_topic(connection)

    def _await_topic(self, connection: Connection) -> None:
        """Wait until the coordinator knows the topic, which it learns after the topic's leader.

        Another group asks: the coordinators of all groups of one partition share what they know.
        """
        ours = _offsets_partition(self.group)
        names = (f"{self.group}-{number}" for number in itertools.count())
        group = next(name for name in names if _offsets_partition(name) == ours)
        member = RawMember(connection, group, self.topic)
        self.wait_until(lambda: member.join().count)
        member.beat(-1)

    def close(self) -> None:
        for each in self._connections:
            each.close()


class _Simulated(RawWorld):
    def __init__(self, simulation: Simulation, topic: str) -> None:
        super().__init__(topic)
        self._simulation = simulation
        self._numbers = itertools.count()

    def connect(self) -> Connection:
        return SimulatedConnection(self._simulation, next(self._numbers))

    def transaction(self) -> RawTransaction:
        return SimulatedTransaction(
            self._simulation.cluster, next(self._numbers), self.group, self.topic
        )

    def now_s(self) -> float:
        return self._simulation.clock.now_ms() / 1_000

    def sleep(self, seconds: float) -> None:
        self._simulation.sleep(round(seconds * 1_000))

    def lasted(self, since_s: float, seconds: float) -> bool:
        return round(self.now_s() - since_s, 3) == seconds


def _offsets_partition(group: str) -> int:
    """Return the partition of `__consumer_offsets` that has a group, as Kafka computes it."""
    number = 0
    for character in group:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return (number & 0x7FFFFFFF) % OFFSETS_PARTITIONS


@contextmanager
def real_world(kafka: RealKafka, topic: str) -> Iterator[RawWorld]:
    """Yield a new group at a real broker that has the topic."""
    world = _Real(kafka, topic)
    try:
        world.await_coordinator()
        yield world
    finally:
        world.close()


@contextmanager
def simulated_world(**settings: Any) -> Iterator[RawWorld]:
    """Yield a new group at a simulated broker with the settings of the real one."""
    with Simulation("raw") as simulation:
        world = _Simulated(simulation, "raw")
        simulation.cluster.create_topic(world.topic, PARTITIONS)
        simulation.cluster.configure_group(
            world.group,
            **{
                "assignment_interval_ms": 1_000,
                "classic_session_limits_ms": (500, 1_800_000),
                **settings,
            },
        )
        yield world
