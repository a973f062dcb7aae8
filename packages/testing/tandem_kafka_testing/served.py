"""The object of the fixture `kafka_broker`: a cluster over TCP, simulated or real."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.cluster.topics import is_valid_name
from tandem_kafka_testing.fault_plan import FaultPlan
from tandem_kafka_testing.loopback import LoopbackCluster

__all__ = ["ServedKafka", "named_cluster"]

#: The environment variable that names a real cluster to test against, and its former name.
_VARIABLES = ("TANDEM_KAFKA_TEST_BROKERS", "TANDEM_BOOTSTRAP_SERVERS")

_TIMEOUT_S: Final = 30.0

T = TypeVar("T")


def named_cluster() -> str | None:
    """Return the bootstrap servers of the real cluster that the environment names, if any."""
    return next((found for name in _VARIABLES if (found := os.environ.get(name))), None)


class ServedKafka:
    """A cluster with an address; as a context manager, it ends a simulated cluster.

    A simulated cluster runs in a thread, in real time, and serves clients in any language.

    Args:
        bootstrap: The bootstrap servers of a real cluster; None for a simulated one.
        brokers: Number of simulated brokers.
        seed: Determines everything random in a simulated cluster and its faults.
        kafka: The release that the brokers simulate, as for `LoopbackCluster`.
        users: Passwords by user. Clients must log in if there are any, with PLAIN, SCRAM-SHA-256 or
            SCRAM-SHA-512 (`security_protocol="SASL_PLAINTEXT"`).
        port: The port of the first broker; the others have the ports behind it. 0 for free ports.
        faults: The faults of a simulated cluster.
        on_fault: Called with each fault of the plan, on the thread of the cluster.

    Attributes:
        bootstrap: The value for `bootstrap_servers`.
        real: Whether the cluster is a real one.

    Raises:
        OSError: A port is in use.
        ValueError: A number of brokers, a port or a release is not allowed.
    """

    def __init__(
        self,
        bootstrap: str | None = None,
        brokers: int = 1,
        *,
        seed: object = 0,
        kafka: str | None = None,
        users: Mapping[str, str] | None = None,
        port: int = 0,
        faults: FaultPlan | None = None,
        on_fault: Callable[[str], None] | None = None,
    ) -> None:
        self.real = bootstrap is not None
        self._simulated = None
        if bootstrap is None:
            loopback = LoopbackCluster(
                seed, brokers=brokers, kafka=kafka, port=port, faults=faults, on_fault=on_fault
            )
            loopback.cluster.users.update(users or {})
            self._simulated = _Thread(loopback)
            bootstrap = loopback.bootstrap
        self.bootstrap = bootstrap
        self._producer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End a simulated cluster; a real one keeps running."""
        if self._simulated is not None:
            self._simulated.end()
        if self._producer is not None:
            self._producer.close()

    def perform(self, action: Callable[[SimCluster], T]) -> T:
        """Call `action` with the simulated cluster, which it may use and change.

        Raises:
            RuntimeError: The cluster is a real one, or closed.
        """
        if self._simulated is None:
            raise RuntimeError(f"{self.bootstrap} is a real cluster, which a test cannot change")
        return self._simulated.perform(action)

    def cause(self, kind: str, **arguments: object) -> None:
        """Cause a fault of the simulated cluster now.

        Args:
            kind: The name of a method of `ClusterFaults`, for example "cut" or "expel".
            **arguments: Its arguments; what is not given is drawn from the seed.

        Raises:
            RuntimeError: The cluster is a real one, or closed.
            ValueError: There is no such fault, or an argument is not allowed.
        """
        if self._simulated is None:
            raise RuntimeError(f"{self.bootstrap} is a real cluster: its faults are its own")
        loopback = self._simulated.loopback
        self._simulated.perform(lambda _: loopback.cause(kind, **arguments))

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic; returns its name.

        Raises:
            InvalidTopicError: Kafka does not allow the name.
            TopicAlreadyExistsError: A topic has that name already. It keeps its records.
            InvalidPartitionsError: The number of partitions is less than 1.
        """
        if self._simulated is not None:
            self.perform(lambda cluster: _create_topic(cluster, name, partitions))
            return name
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.create_topics([NewTopic(name, partitions, -1)])
        finally:
            admin.close()
        return name

    def produce(self, topic: str, *values: bytes | None, partition: int = 0) -> None:
        """Append records, and wait until the cluster has accepted them.

        Raises:
            UnknownTopicOrPartitionError: A simulated cluster has no such partition.
            KafkaError: The cluster did not accept them.
        """
        if self._simulated is not None:
            tp = TopicPartition(topic, partition)
            self.perform(lambda cluster: _produce(cluster, tp, values))
            return
        if self._producer is None:
            from tandem_kafka import KafkaProducer

            self._producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        sent = []
        for value in values:
            key = b"" if value is None else None  # kafka-python sends no record without both
            sent.append(self._producer.send(topic, value, key=key, partition=partition))
        for each in sent:
            each.get(_TIMEOUT_S)


def _create_topic(cluster: SimCluster, name: str, partitions: int) -> None:
    from kafka import errors

    if not is_valid_name(name):
        raise errors.InvalidTopicError(f"Topic name is invalid: {name!r}")
    if name in cluster.topics:
        raise errors.TopicAlreadyExistsError(f"Topic {name!r} already exists.")
    if partitions < 1:
        raise errors.InvalidPartitionsError(f"partitions={partitions}: must be at least 1")
    cluster.create_topic(name, partitions)


def _produce(cluster: SimCluster, tp: TopicPartition, values: tuple[bytes | None, ...]) -> None:
    from kafka import errors

    if cluster.partition(tp) is None:
        raise errors.UnknownTopicOrPartitionError(f"{tp.topic}-{tp.partition} does not exist")
    cluster.produce(tp, *values)


class _Thread:
    """Serves a simulated cluster until `end`."""

    def __init__(self, loopback: LoopbackCluster) -> None:
        self.loopback = loopback
        self._loop = asyncio.new_event_loop()
        self._ready, self._end = threading.Event(), asyncio.Event()
        #: Actions that wait for the thread. Writers: `perform` in any thread, each with its own.
        self._waiting: set[Future[Any]] = set()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="served-kafka", daemon=True)
        self._thread.start()
        self._ready.wait(_TIMEOUT_S)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except Exception as error:  # noqa: BLE001 - raised where the thread was started
            self._error = error
        finally:
            self._ready.set()
            # Invariant: the event loop is closed, so it takes no action behind these.
            for done in tuple(self._waiting):
                done.set_exception(_closed())

    async def _serve(self) -> None:
        async with self.loopback:
            self._ready.set()
            await self._end.wait()

    def perform(self, action: Callable[[SimCluster], T]) -> T:
        """Call `action` on the thread of the cluster."""
        if threading.current_thread() is self._thread:
            return action(self.loopback.cluster)  # within `on_fault`, or within another action
        done: Future[T] = Future()

        def run() -> None:
            self._waiting.discard(done)
            try:
                done.set_result(self.loopback.perform(lambda: action(self.loopback.cluster)))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                done.set_exception(error)

        self._waiting.add(done)
        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError:  # the event loop is closed
            self._waiting.discard(done)
            raise _closed() from None
        return done.result(_TIMEOUT_S)

    def end(self) -> None:
        """Close the ports and end the thread; a second call has no effect."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # another call has just ended it
                self._loop.call_soon_threadsafe(self._end.set)
            if threading.current_thread() is not self._thread:
                self._thread.join(_TIMEOUT_S)


def _closed() -> RuntimeError:
    return RuntimeError("the cluster is closed")
