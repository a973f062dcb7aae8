"""Two environments for raw requests of a share group: a real and a simulated cluster.

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

import confluent_kafka
import pytest
from kafka.protocol.metadata import MetadataResponse

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.batch import Marker
from tandem_kafka_testing.cluster.group_configs import fields_of
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.broker_choice import chosen_broker
from tests.integration.connections import Connection, RealConnection, SimulatedConnection
from tests.integration.share.sharing import RawShareMember, require_share_groups
from tests.waiting import PATIENCE_S, until

__all__ = ["LOCK_MS", "ShareWorld", "share_world"]

PARTITIONS = 2
#: How long members may keep records in these tests.
LOCK_MS = 15_000
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR.
_LOADING = (14, 15, 16)
_BATCHED = {"linger.ms": 100, "batch.num.messages": 10_000}


#: Writes a transaction of records; returns a function that commits it.
Transact = Callable[[int, Marker | None], Callable[[], None]]


class ShareWorld(ABC):
    """A new topic of two partitions, and a new share group that begins at its earliest offset."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.group = f"share-{uuid.uuid4().hex[:8]}"

    @abstractmethod
    def connect(self) -> Connection:
        """Return a new connection to the only broker."""

    @abstractmethod
    def disconnect(self, connection: Connection) -> None:
        """Close a connection, and wait until the broker has noticed."""

    @abstractmethod
    def topic_id(self) -> uuid.UUID:
        """Return the id of the topic."""

    @abstractmethod
    def configure(self, **options: str) -> None:
        """Set options of the group, with underscores instead of dots."""

    @abstractmethod
    def produce(self, *counts: int, partition: int = 0) -> None:
        """Append batches with these numbers of records."""

    @abstractmethod
    def delete_before(self, offset: int) -> None:
        """Delete records of partition 0, as retention does."""

    @abstractmethod
    @contextmanager
    def transactions(self) -> Iterator[Transact]:
        """Yield a function that writes a transaction to partition 0.

        It takes the number of records and the end. With None, the transaction stays open, and the
        function returns another one that commits it.
        """

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def unknown_id(self) -> uuid.UUID:
        """Return the id of no topic."""
        return uuid.UUID(int=self.topic_id().int ^ 1)

    def member(self) -> RawShareMember:
        """Return a member with its own connection, before its first request."""
        return RawShareMember(self.connect(), self.group, self.topic, self.topic_id())

    def joined(self) -> RawShareMember:
        """Return a member that has partitions."""
        member = self.member()
        member.join()
        return member


class _Real(ShareWorld):
    def __init__(self, kafka: RealKafka) -> None:
        super().__init__(kafka.admin.new_topic("share", PARTITIONS))
        self._kafka = kafka
        self._connections: list[RealConnection] = []
        self._topic_id: uuid.UUID | None = None

    def connect(self) -> Connection:
        self._connections.append(RealConnection(self._kafka.bootstrap()))
        return self._connections[-1]

    def disconnect(self, connection: Connection) -> None:
        assert isinstance(connection, RealConnection)
        self._connections.remove(connection)
        connection.close()
        time.sleep(0.5)

    def topic_id(self) -> uuid.UUID:
        if self._topic_id is None:
            request = MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=self.topic)],
                allow_auto_topic_creation=False,
            )
            response = self.connect().exchange(request, MetadataResponse, 12)
            self._topic_id = response.topics[0].topic_id
        assert self._topic_id is not None
        return self._topic_id

    def configure(self, **options: str) -> None:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        self._kafka.admin.configure_group(self.group, settings)
        time.sleep(0.2)

    def produce(self, *counts: int, partition: int = 0) -> None:
        for count in counts:
            records = [Record(b"x", partition=partition)] * count
            self._kafka.admin.produce(self.topic, records, _BATCHED)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def delete_before(self, offset: int) -> None:
        self._kafka.admin.delete_records(self.topic, {0: offset})

    @contextmanager
    def transactions(self) -> Iterator[Transact]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._kafka.bootstrap(),
                "transactional.id": self.group,
                "linger.ms": 100,
                "log_level": 0,
            }
        )
        producer.init_transactions(PATIENCE_S)

        def transact(count: int, end: Marker | None) -> Callable[[], None]:
            producer.begin_transaction()
            for _ in range(count):
                producer.produce(self.topic, b"x", partition=0)
            producer.flush(PATIENCE_S)
            if end == "commit":
                commit()
            elif end == "abort":
                producer.abort_transaction(PATIENCE_S)
            time.sleep(0.2)  # markers become visible a moment later
            return commit

        def commit() -> None:
            producer.commit_transaction(PATIENCE_S)

        yield transact

    def await_coordinator(self) -> None:
        """Wait until the group has a coordinator that has read its log."""
        request = FindCoordinatorRequest(key=self.group, key_type=0, coordinator_keys=[self.group])
        member = self.member()
        for _ in until(lambda: member.beat(1).error not in _LOADING, "a coordinator"):
            self.connect().exchange(request, FindCoordinatorResponse, 4)
            time.sleep(0.05)

    def close(self) -> None:
        for each in self._connections:
            each.close()


class _Simulated(ShareWorld):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__("share")
        self._simulation = simulation
        self._numbers = itertools.count()
        simulation.cluster.create_topic(self.topic, PARTITIONS)
        self.configure(share_assignment_interval_ms="1000")

    def connect(self) -> Connection:
        return SimulatedConnection(self._simulation, next(self._numbers))

    def disconnect(self, connection: Connection) -> None:
        broker: Any = next(iter(self._simulation.cluster.brokers.values()))
        broker.closed(connection)
        self._simulation.sleep(10)

    def topic_id(self) -> uuid.UUID:
        return self._simulation.cluster.topics[self.topic].topic_id

    def configure(self, **options: str) -> None:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        self._simulation.cluster.coordination.of(self.group).configure(**fields_of(settings))

    def produce(self, *counts: int, partition: int = 0) -> None:
        for count in counts:
            values = [b"x"] * count
            self._simulation.cluster.produce(TopicPartition(self.topic, partition), *values)

    def delete_before(self, offset: int) -> None:
        self._simulation.cluster.delete_records(TopicPartition(self.topic, 0), offset)

    @contextmanager
    def transactions(self) -> Iterator[Transact]:
        cluster = self._simulation.cluster

        def transact(count: int, end: Marker | None) -> Callable[[], None]:
            transaction = cluster.transaction(1)
            transaction.produce(TopicPartition(self.topic, 0), *[b"x"] * count)
            if end == "commit":
                transaction.commit()
            elif end == "abort":
                transaction.abort()
            return transaction.commit

        yield transact

    def sleep(self, seconds: float) -> None:
        self._simulation.sleep(round(seconds * 1_000))


def _begin(world: ShareWorld) -> None:
    world.configure(share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))


@contextmanager
def share_world(request: pytest.FixtureRequest) -> Iterator[ShareWorld]:
    """Yield a new topic and a new group, at the broker that the parameter of a fixture names."""
    if chosen_broker(request) == "simulated":
        with _simulated_share_world() as simulated:
            yield simulated
    else:
        require_share_groups()
        with _real_share_world(request.getfixturevalue("kafka")) as real:
            yield real


@contextmanager
def _real_share_world(kafka: RealKafka) -> Iterator[ShareWorld]:
    """Yield a new group and a new topic at a real broker."""
    world = _Real(kafka)
    try:
        world.await_coordinator()
        _begin(world)
        yield world
    finally:
        world.close()


@contextmanager
def _simulated_share_world() -> Iterator[ShareWorld]:
    """Yield a new group and a new topic at a simulated broker."""
    with Simulation("share") as simulation:
        world = _Simulated(simulation)
        _begin(world)
        yield world
