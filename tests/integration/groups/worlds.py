"""Two environments for one script: a real broker, and a simulated one that must behave the same."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.wire.messages import LeaveGroupRequest, LeaveGroupResponse
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.connections import Connection, RealConnection, SimulatedConnection
from tests.integration.heartbeating import RawMember
from tests.integration.polling import Consume
from tests.waiting import until

__all__ = ["Cluster", "RealCluster", "SimulatedCluster", "World"]

_POLL_MS = 50
_INTERVAL_MS = 10


class Cluster(Protocol):
    """The interface of real and simulated clusters."""

    @property
    def coordinator(self) -> Connection: ...

    def now_s(self) -> float: ...

    def sleep(self) -> None: ...

    def consumer(self, **options: Any) -> KafkaConsumer: ...

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None: ...

    def add_partitions(self, name: str, partitions: int) -> None: ...

    def produce(self, tp: TopicPartition, values: list[bytes]) -> None: ...


class SimulatedCluster:
    """One simulated broker; time passes during waits."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    @cached_property
    def coordinator(self) -> Connection:
        return SimulatedConnection(self._simulation)

    def now_s(self) -> float:
        return self._simulation.clock.now_ms() / 1_000

    def sleep(self) -> None:
        self._simulation.sleep(_INTERVAL_MS)

    def consumer(self, **options: Any) -> KafkaConsumer:
        return self._simulation.consumer(**options)

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        self._simulation.cluster.create_topic(name, partitions, replicas=replicas)

    def add_partitions(self, name: str, partitions: int) -> None:
        self._simulation.cluster.add_partitions(name, partitions)

    def produce(self, tp: TopicPartition, values: list[bytes]) -> None:
        self._simulation.cluster.produce(tp, *values)


class RealCluster:
    """The broker of the integration tests."""

    def __init__(self, kafka: RealKafka, consume: Consume) -> None:
        self._kafka = kafka
        self._consume = consume

    @cached_property
    def coordinator(self) -> RealConnection:
        return RealConnection(self._kafka.bootstrap())

    def now_s(self) -> float:
        return time.monotonic()

    def sleep(self) -> None:
        time.sleep(_INTERVAL_MS / 1_000)

    def consumer(self, **options: Any) -> KafkaConsumer:
        return self._consume(bootstrap_servers=self._kafka.bootstrap(), **options)

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        self._kafka.admin.create_topic(name, partitions, replicas=replicas)

    def add_partitions(self, name: str, partitions: int) -> None:
        self._kafka.admin.add_partitions(name, partitions)

    def produce(self, tp: TopicPartition, values: list[bytes]) -> None:
        records = [Record(value, partition=tp.partition) for value in values]
        self._kafka.admin.produce(tp.topic, records)


class World:
    """A cluster, and the actions of scripts in it.

    Attributes:
        read: The records that the consumers read, in order.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = f"world-{uuid.uuid4().hex[:8]}"
        self.read: list[ConsumerRecord] = []

    def topic(self, partitions: int, suffix: str = "orders") -> list[TopicPartition]:
        """Create a topic; returns its partitions."""
        name = f"{self.name}-{suffix}"
        self.cluster.create_topic(name, partitions)
        return [TopicPartition(name, number) for number in range(partitions)]

    def consumer(self, **options: Any) -> KafkaConsumer:
        """Return a consumer without auto-commit; by default in the group of this world."""
        defaults = {
            "group_id": self.name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        return self.cluster.consumer(**{**defaults, **options})

    def poll_until(self, done: Callable[[], object], *consumers: KafkaConsumer) -> None:
        """Poll the consumers in turn until `done()`."""
        for _ in until(done, now_s=self.cluster.now_s):
            for consumer in consumers:
                self.poll(consumer)

    def wait_until(self, done: Callable[[], object]) -> None:
        """Wait without touching a consumer until `done()`."""
        for _ in until(done, now_s=self.cluster.now_s):
            self.cluster.sleep()

    def poll(self, consumer: KafkaConsumer, timeout_ms: int = _POLL_MS) -> None:
        """Poll once."""
        for records in consumer.poll(timeout_ms=timeout_ms).values():
            self.read += records

    def settle(self, partitions: list[TopicPartition], *consumers: KafkaConsumer) -> None:
        """Poll until each consumer has partitions, and all partitions are assigned."""

        def fully_assigned() -> bool:
            shares = [consumer.assignment() for consumer in consumers]
            return (
                all(shares)
                and sum(map(len, shares)) == len(partitions)
                and set().union(*shares) == set(partitions)
            )

        self.poll_until(fully_assigned, *consumers)

    def expel(self, consumer: KafkaConsumer, protocol: str) -> None:
        """Make the member leave without its knowledge: send its leave request from here."""
        identity = consumer.group_metadata()
        group_id, member_id = identity.group_id, identity.member_id
        if protocol == "consumer":
            raw = RawMember(self.cluster.coordinator, group_id, "")
            raw.member_id = member_id
            assert raw.beat(-1).error is None
            return
        members = [LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None)]
        request = LeaveGroupRequest(group_id=group_id, members=members)
        self.cluster.coordinator.exchange(request, LeaveGroupResponse, 4)
