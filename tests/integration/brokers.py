"""The brokers of the tests. There are three kinds, which must behave the same:

- `simulated`: brokers of a simulation, whose time passes during waits
- `served`: a simulated broker that clients reach over sockets
- `real`: Apache Kafka

A test with the fixture `brokers` runs on simulated brokers, and with `--all` on the other two kinds
as well. The mark `brokers` restricts it to the kinds that it names. `--broker` skips the simulated
or the real brokers.

A test with the fixture `kafka` and the mark `both_clusters` runs on the served broker, then on a
real one. With `everyday="simulated"`, it runs on the real one only with `--all`. A test that needs
a real broker, for example to pause its process or for compaction, has the mark `real_cluster` with
the reason.
"""

from __future__ import annotations

import itertools
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, cast

import confluent_kafka
import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.batch import Marker
from tandem_kafka_testing.cluster.group_configs import fields_of
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import ClusterAdmin, Record
from tandem_kafka_testing.served import ServedKafka
from tests.integration.connections import Connection, RealConnection, SimulatedConnection
from tests.integration.groups.hosts import Host, RealHost, SimulatedHost
from tests.integration.polling import Consume
from tests.waiting import PATIENCE_S, until

__all__ = [
    "Brokers",
    "Cluster",
    "RealBrokers",
    "ServedCluster",
    "SimulatedBrokers",
    "choose_brokers",
    "choose_clusters",
    "started",
]

_KINDS = ("simulated", "served", "real")
_INTERVAL_S = 0.02
#: The time until a controller fences a silent broker: `broker.session.timeout.ms`.
_BROKER_SESSION_MS = 3_000
_BATCHED = {"linger.ms": 100, "batch.num.messages": 10_000}

#: Writes a transaction of records; returns a function that commits it.
Transact = Callable[[int, Marker | None], Callable[[], None]]


class Cluster(Protocol):
    """The methods that a served cluster and `RealKafka` have in common."""

    admin: ClusterAdmin

    def bootstrap(self) -> str:
        """Return the value for `bootstrap_servers`."""


class ServedCluster:
    """A served simulated cluster, with the settings of the real one of these tests."""

    def __init__(self, served: ServedKafka) -> None:
        self.perform = served.perform
        self.admin = ClusterAdmin(served.bootstrap)
        self._bootstrap = served.bootstrap
        self.perform(lambda cluster: setattr(cluster, "auto_create", False))

    def bootstrap(self) -> str:
        """Return the value for `bootstrap_servers`."""
        return self._bootstrap


class Brokers(ABC):
    """Brokers and their clock."""

    @property
    @abstractmethod
    def node_ids(self) -> list[int]: ...

    @abstractmethod
    def now_s(self) -> float:
        """Return the time."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def lasted(self, since_s: float, seconds: float) -> bool:
        """Return whether at least this time has passed; simulated time must be exact."""

    # --- clients -------------------------------------------------------------------------------

    @abstractmethod
    def connect(self, node_id: int | None = None) -> Connection:
        """Return a new connection to a running broker, by default to the only one."""

    @abstractmethod
    def disconnect(self, connection: Connection) -> None:
        """Close a connection, and wait until the broker has noticed."""

    @abstractmethod
    def consumer(self, **options: Any) -> KafkaConsumer:
        """Return a consumer that is closed when the test ends."""

    @abstractmethod
    def host(self) -> Host:
        """Return a process for members."""

    # --- topics and groups ---------------------------------------------------------------------

    @abstractmethod
    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        """Create a topic."""

    @abstractmethod
    def add_partitions(self, name: str, partitions: int) -> None:
        """Increase the number of partitions of a topic to `partitions`."""

    @abstractmethod
    def produce(self, tp: TopicPartition, values: list[bytes]) -> None:
        """Append a batch of records."""

    @abstractmethod
    def delete_before(self, tp: TopicPartition, offset: int) -> None:
        """Delete records, as retention does."""

    @abstractmethod
    @contextmanager
    def transactions(self, tp: TopicPartition) -> Iterator[Transact]:
        """Yield a function that writes a transaction to a partition.

        Its arguments are the number of records and the marker that ends the transaction. With None,
        the transaction stays open, and the function returns another one that commits it.
        """

    @abstractmethod
    def configure_group(self, group: str, **options: str) -> None:
        """Set options of a group, with underscores instead of dots."""

    @abstractmethod
    def simulate(self, group: str, **settings: Any) -> None:
        """Change the `GroupSettings` of simulated brokers; real ones start with theirs."""

    def topic_id(self, name: str) -> uuid.UUID:
        """Return the id of a topic."""
        entry = MetadataRequest.MetadataRequestTopic(name=name, topic_id=uuid.UUID(int=0))
        request = MetadataRequest(topics=[entry], allow_auto_topic_creation=False)
        response = self.connect().exchange(request, MetadataResponse, 12)
        return cast(uuid.UUID, response.topics[0].topic_id)

    def await_coordinator(self, group: str, serves: Callable[[], object]) -> None:
        """Wait until the coordinator of a group has loaded its log, and `serves()` is true."""
        connection = self.connect()
        request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])

        def ready() -> object:
            connection.exchange(request, FindCoordinatorResponse, 4)
            return serves()

        self.wait_until(ready)

    def wait_until(self, done: Callable[[], object]) -> None:
        """Wait until `done()`, and do nothing meanwhile."""
        for _ in until(done, now_s=self.now_s):
            self.sleep(_INTERVAL_S)

    # --- outages -------------------------------------------------------------------------------

    @abstractmethod
    def stop(self, node_id: int) -> None:
        """Shut a broker down cleanly: its leaders and coordinators move first."""

    @abstractmethod
    def kill(self, *node_ids: int) -> None:
        """Kill brokers. Others take over only after a majority has noticed it."""

    @abstractmethod
    def start(self) -> None:
        """Start all brokers that are not running."""

    @abstractmethod
    def pause(self, node_id: int) -> None:
        """Pause a broker; its connections stay open."""

    @abstractmethod
    def resume(self, node_id: int) -> None:
        """Resume a paused broker."""


class SimulatedBrokers(Brokers):
    """Brokers of a simulation. This class acts as their controllers.

    Attributes:
        simulation: The simulation.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._cluster = simulation.cluster
        self._numbers = itertools.count(-1, -1)  # connections of members count upwards

    @property
    def node_ids(self) -> list[int]:
        return list(self._cluster.brokers)

    def now_s(self) -> float:
        return self.simulation.clock.now_ms() / 1_000

    def sleep(self, seconds: float) -> None:
        self.simulation.sleep(round(seconds * 1_000))

    def lasted(self, since_s: float, seconds: float) -> bool:
        return round(self.now_s() - since_s, 3) == seconds

    def connect(self, node_id: int | None = None) -> Connection:
        return SimulatedConnection(self.simulation, next(self._numbers), node_id or 1)

    def disconnect(self, connection: Connection) -> None:
        broker: Any = next(iter(self._cluster.brokers.values()))
        broker.closed(connection)
        self.simulation.sleep(10)

    def consumer(self, **options: Any) -> KafkaConsumer:
        return self.simulation.consumer(**options)

    def host(self) -> Host:
        return SimulatedHost(self.simulation)

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        self._cluster.create_topic(name, partitions, replicas=replicas)

    def add_partitions(self, name: str, partitions: int) -> None:
        self._cluster.add_partitions(name, partitions)

    def produce(self, tp: TopicPartition, values: list[bytes]) -> None:
        self._cluster.produce(tp, *values)

    def delete_before(self, tp: TopicPartition, offset: int) -> None:
        self._cluster.delete_records(tp, offset)

    @contextmanager
    def transactions(self, tp: TopicPartition) -> Iterator[Transact]:
        def transact(count: int, end: Marker | None) -> Callable[[], None]:
            transaction = self._cluster.transaction(1)
            transaction.produce(tp, *[b"x"] * count)
            if end == "commit":
                transaction.commit()
            elif end == "abort":
                transaction.abort()
            return transaction.commit

        yield transact

    def configure_group(self, group: str, **options: str) -> None:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        self._cluster.configure_group(group, **fields_of(settings))

    def simulate(self, group: str, **settings: Any) -> None:
        self._cluster.configure_group(group, **settings)

    def stop(self, node_id: int) -> None:
        self._cluster.stop(node_id, elect=True)

    def kill(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self._cluster.stop(node_id)
        self._miss()

    def start(self) -> None:
        for node_id, broker in self._cluster.brokers.items():
            if not broker.up:
                self._cluster.start(node_id)

    def pause(self, node_id: int) -> None:
        self._cluster.pause(node_id)
        self._miss()

    def resume(self, node_id: int) -> None:
        self._cluster.resume(node_id)

    def _miss(self) -> None:
        """Elect leaders in place of silent brokers, if a majority of brokers responds."""

        def find_out() -> None:
            brokers = self._cluster.brokers.values()
            if 2 * sum(broker.serves for broker in brokers) > len(brokers):
                for broker in brokers:
                    if not broker.serves:
                        self._cluster.elect(broker.node_id)

        self.simulation.after(_BROKER_SESSION_MS, find_out)


class RealBrokers(Brokers):
    """Brokers that clients reach over sockets; `close` leaves all of them running.

    A served broker, and brokers that all processes of a test run share, can be neither paused nor
    stopped.
    """

    def __init__(self, kafka: Cluster, consume: Consume) -> None:
        self._kafka = kafka
        self._consume = consume
        self._to_close = ExitStack()

    @property
    def _real(self) -> RealKafka:
        assert isinstance(self._kafka, RealKafka)
        return self._kafka

    @property
    def node_ids(self) -> list[int]:
        return self._real.node_ids

    def now_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lasted(self, since_s: float, seconds: float) -> bool:
        return self.now_s() - since_s >= seconds

    def connect(self, node_id: int | None = None) -> Connection:
        address = self._kafka.bootstrap()
        if node_id is not None:
            (ports,) = (each.ports for each in self._real.addresses if each.node_id == node_id)
            address = f"127.0.0.1:{ports['PLAINTEXT']}"
        connection = RealConnection(address)
        self._to_close.callback(connection.close)
        return connection

    def disconnect(self, connection: Connection) -> None:
        assert isinstance(connection, RealConnection)
        connection.close()
        time.sleep(0.5)

    def consumer(self, **options: Any) -> KafkaConsumer:
        return self._consume(bootstrap_servers=self._kafka.bootstrap(), **options)

    def host(self) -> Host:
        host = RealHost(self._kafka.bootstrap())
        self._to_close.callback(host.kill)
        return host

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        self._kafka.admin.create_topic(name, partitions, replicas=replicas)

    def add_partitions(self, name: str, partitions: int) -> None:
        self._kafka.admin.add_partitions(name, partitions)

    def produce(self, tp: TopicPartition, values: list[bytes]) -> None:
        records = [Record(value, partition=tp.partition) for value in values]
        self._kafka.admin.produce(tp.topic, records, _BATCHED)

    def delete_before(self, tp: TopicPartition, offset: int) -> None:
        self._kafka.admin.delete_records(tp.topic, {tp.partition: offset})

    @contextmanager
    def transactions(self, tp: TopicPartition) -> Iterator[Transact]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._kafka.bootstrap(),
                "transactional.id": f"writer-{uuid.uuid4().hex[:8]}",
                "linger.ms": 100,
                "log_level": 0,
            }
        )
        producer.init_transactions(PATIENCE_S)

        def transact(count: int, end: Marker | None) -> Callable[[], None]:
            producer.begin_transaction()
            for _ in range(count):
                producer.produce(tp.topic, b"x", partition=tp.partition)
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

    def configure_group(self, group: str, **options: str) -> None:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        self._kafka.admin.configure_group(group, settings)
        time.sleep(0.2)

    def simulate(self, group: str, **settings: Any) -> None:
        if isinstance(self._kafka, ServedCluster):
            self._kafka.perform(lambda cluster: cluster.configure_group(group, **settings))

    def _run_again_at_end(self) -> None:
        self._to_close.callback(self._real.start_again)
        self._to_close.callback(self._real.resume)

    def stop(self, node_id: int) -> None:
        self._run_again_at_end()
        self._real.stop(node_id)

    def kill(self, *node_ids: int) -> None:
        self._run_again_at_end()
        for node_id in node_ids:
            self._real.kill(node_id)

    def start(self) -> None:
        self._real.start_again()

    def pause(self, node_id: int) -> None:
        self._run_again_at_end()
        self._real.pause(node_id)

    def resume(self, node_id: int) -> None:
        self._real.resume(node_id)

    def close(self) -> None:
        """Close the connections and processes, and start the brokers that were stopped."""
        self._to_close.close()


# --- which ---------------------------------------------------------------------------------------


def choose_brokers(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the fixture `brokers` with the kinds that its mark names."""
    if "brokers" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("brokers")
        kinds = mark.args if mark is not None and mark.args else _KINDS
        full = pytest.mark.full("waits in real time")
        given = [pytest.param(kind, marks=() if kind == "simulated" else full) for kind in kinds]
        metafunc.parametrize("brokers", given, indirect=True)


def choose_clusters(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the mark `both_clusters` with both clusters."""
    both = metafunc.definition.get_closest_marker("both_clusters")
    if both is not None:
        if "kafka" not in metafunc.fixturenames:
            name = metafunc.definition.nodeid
            raise pytest.UsageError(f"{name} is marked both_clusters and has no fixture kafka")
        alone = metafunc.definition.get_closest_marker("real_cluster") is not None
        everyday = alone or "everyday" not in both.kwargs
        more = () if everyday else pytest.mark.full("takes long on a real broker")
        # With a value, pytest would start another broker for the tests without a parameter.
        real = pytest.param(None, id="real", marks=more)
        where: Iterable[Any] = [real] if alone else ["simulated", real]
        metafunc.parametrize("kafka", where, indirect=True, scope="session")


@contextmanager
def started(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """Yield the brokers that the parameter of a fixture names, unless `--broker` skips them.

    The mark `brokers` may name the fixture of the real brokers with `cluster`, and the number of
    simulated brokers with `count`.
    """
    kind, wanted = str(request.param), request.config.getoption("broker")
    if wanted not in {"both", "real" if kind == "real" else "simulated"}:
        pytest.skip(f"--broker={wanted}")
    mark = request.node.get_closest_marker("brokers")
    more = {} if mark is None else mark.kwargs
    if kind == "simulated":
        with Simulation(request.node.name, brokers=more.get("count", 1)) as simulation:
            yield SimulatedBrokers(simulation)
        return
    fixture = "served_cluster" if kind == "served" else more.get("cluster", "kafka")
    consume = request.getfixturevalue("consume")
    real = RealBrokers(request.getfixturevalue(fixture), consume)
    try:
        yield real
    finally:
        real.close()
