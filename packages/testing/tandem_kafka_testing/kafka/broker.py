"""A Kafka cluster on this machine: combined controllers and brokers, one process each."""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tandem_kafka_testing.kafka.admin import ClusterAdmin, Record
from tandem_kafka_testing.kafka.jars import chosen_version, classpath, release_of
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.kafka.process import BrokerProcess
from tandem_kafka_testing.kafka.security import Certificates, login_options, tls_options
from tandem_kafka_testing.kafka.settings import (
    LISTENERS,
    BrokerAddress,
    broker_settings,
    write_properties,
)

#: Options for a JVM with a fast start and a small heap.
QUICK_START: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Brokers and the tests' own clients use PLAINTEXT, and are anonymous.
    "super.users": "User:ANONYMOUS;User:admin",
}


class RealKafka:
    """A context manager that starts brokers on free ports of 127.0.0.1, and stops them.

    Every broker listens for PLAINTEXT, SASL_PLAINTEXT, SSL and SASL_SSL. The SASL mechanisms are
    PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 with the users of `tandem_kafka_testing.kafka.security`.
    The data is in a temporary folder. No broker outlives the process that started it, even if that
    is killed; in another one, pickled, it has addresses and certificates.

    Args:
        brokers: The number of brokers. Ids begin with 1; broker n is in the rack `rack-<n>`.
        version: The version of Kafka, 3.5.0 or newer; without it that of TANDEM_KAFKA_TEST_VERSION,
            or KAFKA_VERSION.
        security: The listener that `bootstrap()` and `options()` are for.
        properties: Broker settings that extend or replace `broker_settings`, or a function that
            returns them, given the certificates.
        listeners: The security protocols of additional listeners, by name.
        authorizer: Whether users need permissions (anonymous users and `admin` do not).
        jvm_options: Options of the brokers' JVMs.
        plugins: A folder of Java classes that the settings name.
        advertise: Returns the advertised ports of a broker by listener, if they differ.

    Raises:
        DownloadError: On entry: Kafka is not in the cache, and cannot be downloaded.
        RuntimeError: On entry: no Java fits, or a broker does not start.
        ValueError: The version or the listener is unknown, or there is no broker.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        version: str | None = None,
        security: str = "PLAINTEXT",
        properties: Mapping[str, str] | Callable[[Certificates], Mapping[str, str]] | None = None,
        listeners: Mapping[str, str] | None = None,
        authorizer: bool = False,
        jvm_options: Sequence[str] = QUICK_START,
        plugins: Path | None = None,
        advertise: Callable[[BrokerAddress], Mapping[str, int]] = lambda _: {},
    ) -> None:
        self.version = version or chosen_version()
        release_of(self.version)
        protocols = {**{name: name for name in LISTENERS}, **(listeners or {})}
        if security not in protocols:
            raise ValueError(f"security={security!r} is not a listener; give one of {[*protocols]}")
        self._security = security
        self._plugins = plugins
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster has at least one broker")
        self._folder = Path(tempfile.mkdtemp(prefix="tandem-kafka-"))
        self._owner = os.getpid()
        self._brokers: dict[int, BrokerProcess] = {}
        atexit.register(self.close)
        self.certificates = Certificates(self._folder / "certificates")
        self.addresses = [
            replace(address, advertised=advertise(address), protocols=protocols)
            for address in _addresses(brokers, list(protocols))
        ]
        given = properties(self.certificates) if callable(properties) else properties
        extra = {**(_AUTHORIZER if authorizer else {}), **(given or {})}
        self._brokers = {
            address.node_id: self._prepare(address, extra, jvm_options)
            for address in self.addresses
        }

    def _prepare(
        self, address: BrokerAddress, extra: Mapping[str, str], jvm_options: Sequence[str]
    ) -> BrokerProcess:
        folder = self._folder / f"broker-{address.node_id}"
        folder.mkdir()
        settings = broker_settings(address, self.addresses, folder / "data", self.certificates)
        properties = folder / "server.properties"
        write_properties(properties, {**settings, **extra})
        log = folder / "broker.log"
        return BrokerProcess(properties, log, jvm_options, self._plugins, self.version)

    def __getstate__(self) -> dict[str, object]:
        """What another process may have: it can use the cluster, and not stop it."""
        kept = {name: value for name, value in vars(self).items() if name != "admin"}
        return {**kept, "_brokers": dict.fromkeys(self._brokers)}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Addresses

    def bootstrap(self, listener: str | None = None) -> str:
        """The brokers' addresses for clients of a listener, separated by commas.

        Args:
            listener: Its name; None for that of `security`.
        """
        name = listener or self._security
        return ",".join(f"127.0.0.1:{each.ports[name]}" for each in self.addresses)

    def options(self, user: str = "admin") -> dict[str, str]:
        """The options of a KafkaConsumer, and of kafka-python's clients, for `security`.

        Args:
            user: Who logs in, if the listener wants to know.
        """
        protocol = self.addresses[0].protocols[self._security]
        return {
            "bootstrap_servers": self.bootstrap(),
            "security_protocol": protocol,
            **login_options(protocol, user),
            **tls_options(protocol, self.certificates),
        }

    @property
    def node_ids(self) -> list[int]:
        """The brokers' ids."""
        return list(self._brokers)

    @cached_property
    def admin(self) -> ClusterAdmin:
        """Creates topics, produces and deletes records."""
        return ClusterAdmin(self.bootstrap("PLAINTEXT"))

    def produce(self, topic: str, *values: bytes | None, partition: int = 0) -> None:
        """Append records, and wait until the cluster has accepted them.

        Raises:
            RuntimeError: The cluster did not accept them.
        """
        self.admin.produce(topic, [Record(value, partition=partition) for value in values])

    # Start and stop; without `node_id`, of all brokers

    def start(self) -> None:
        """Format the storage and start all brokers."""
        if not self._folder.exists():
            raise RuntimeError("the cluster is closed; make a new RealKafka")
        classpath(self.version)
        cluster_id = _new_cluster_id()
        with ThreadPoolExecutor(len(self._brokers)) as pool:
            for _ in pool.map(lambda broker: broker.format(cluster_id), self._brokers.values()):
                pass
        self.start_again()

    def start_again(self, node_id: int | None = None) -> None:
        """Start stopped or killed brokers on the same ports, with the same data."""
        stopped = [each for each in self._chosen(node_id) if not each.running]
        for broker in stopped:
            broker.launch()
        for broker in stopped:
            broker.wait_ready()
        alive = sum(broker.running for broker in self._brokers.values())
        self.admin.wait_for_brokers(alive)
        if alive < len(self._brokers):
            return
        try:
            self.admin.wait_for_leaders()
        except TimeoutError as error:
            logs = [broker.log_tail() for broker in self._brokers.values()]
            raise RuntimeError(f"{error}\n" + "\n".join(logs)) from error

    def stop(self, node_id: int | None = None) -> None:
        """Stop gracefully: leadership moves away first."""
        for broker in self._chosen(node_id):
            broker.ask_to_stop()
        for broker in self._chosen(node_id):
            broker.wait_stopped()

    def kill(self, node_id: int | None = None) -> None:
        """Kill without a graceful stop, like a crash."""
        for broker in self._chosen(node_id):
            broker.kill()

    def restart(self, node_id: int | None = None) -> None:
        """Stop gracefully, and start again."""
        self.stop(node_id)
        self.start_again(node_id)

    def pause(self, node_id: int | None = None) -> None:
        """Pause the process: connections stay open, but it does not respond."""
        for broker in self._chosen(node_id):
            broker.pause()

    def resume(self, node_id: int | None = None) -> None:
        """Continue after `pause`."""
        for broker in self._chosen(node_id):
            broker.resume()

    def log_tail(self, node_id: int = 1, lines: int = 40) -> str:
        """Return the last lines of a broker's log."""
        return self._chosen(node_id)[0].log_tail(lines)

    def close(self) -> None:
        """Kill all brokers and remove their data; a process forked from their owner may not."""
        if os.getpid() != self._owner:
            return
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.close)

    def _chosen(self, node_id: int | None) -> list[BrokerProcess]:
        if os.getpid() != self._owner:
            raise RuntimeError(f"only the process that has started it ({self._owner}) may do this")
        return list(self._brokers.values()) if node_id is None else [self._brokers[node_id]]


def _addresses(brokers: int, listeners: Sequence[str]) -> list[BrokerAddress]:
    each = 1 + len(listeners)
    ports = free_ports(brokers * each)
    return [
        BrokerAddress(
            node_id=number + 1,
            controller_port=ports[number * each],
            ports=dict(zip(listeners, ports[number * each + 1 :], strict=False)),
        )
        for number in range(brokers)
    ]


def _new_cluster_id() -> str:
    # Must not begin with a dash: the storage tool would parse it as an option.
    return base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).rstrip(b"=").decode()
