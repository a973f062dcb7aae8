"""Clusters whose brokers fail: real ones, and simulated ones that must behave the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tandem_kafka_testing import Simulation
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.connections import Connection, RealConnection, SimulatedConnection
from tests.integration.groups.hosts import Host, RealHost, SimulatedHost
from tests.integration.groups.worlds import Cluster, RealCluster, SimulatedCluster
from tests.integration.polling import Consume

__all__ = ["Brokers", "RealBrokers", "SimulatedBrokers"]

#: The time until a controller fences a silent broker: `broker.session.timeout.ms`.
_BROKER_SESSION_MS = 3_000


class Brokers(Cluster, Protocol):
    """The interface of clusters with several brokers, by broker id."""

    @property
    def node_ids(self) -> list[int]: ...

    def connect(self, node_id: int) -> Connection:
        """Return a new connection to a running broker."""

    def stop(self, node_id: int) -> None:
        """Shut it down cleanly: leaders and coordinators move first."""

    def kill(self, *node_ids: int) -> None:
        """Kill brokers: no other takes over until a majority has noticed."""

    def start(self) -> None:
        """Start all brokers that are not running."""

    def pause(self, node_id: int) -> None:
        """Pause a broker; its connections stay open."""

    def resume(self, node_id: int) -> None:
        """Resume a paused broker."""

    def set_session_timeout(self, group_id: str, timeout_ms: int) -> None:
        """Set the session timeout of a KIP-848 group."""

    def host(self) -> Host:
        """Return a process for members."""


class SimulatedBrokers(SimulatedCluster):
    """Simulated brokers; this class does the work of the controllers."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._cluster = simulation.cluster
        self._connections = 0

    @property
    def node_ids(self) -> list[int]:
        return list(self._cluster.brokers)

    def connect(self, node_id: int) -> Connection:
        self._connections -= 1  # connections of members count upwards
        return _ConnectionTo(self._simulation, self._connections, node_id)

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
        """Replace silent brokers, if a majority of brokers serves."""

        def find_out() -> None:
            brokers = self._cluster.brokers.values()
            if 2 * sum(broker.serves for broker in brokers) > len(brokers):
                for broker in brokers:
                    if not broker.serves:
                        self._cluster.elect(broker.node_id)

        self._simulation.after(_BROKER_SESSION_MS, find_out)

    def set_session_timeout(self, group_id: str, timeout_ms: int) -> None:
        self._cluster.configure_group(group_id, session_timeout_ms=timeout_ms)

    def host(self) -> Host:
        return SimulatedHost(self._simulation)


class _ConnectionTo(SimulatedConnection):
    def __init__(self, simulation: Simulation, number: int, node_id: int) -> None:
        super().__init__(simulation, number)
        self._broker = simulation.cluster.brokers[node_id]

    def send(self, frame: bytes) -> None:
        connection: Any = self
        self._broker.receive(connection, frame[4:])


class RealBrokers(RealCluster):
    """Real brokers of the tests; `close` leaves all of them running.

    Those that all processes share can be neither paused nor stopped.
    """

    def __init__(self, kafka: RealKafka, consume: Consume) -> None:
        super().__init__(kafka, consume)
        self._to_close: list[Callable[[], None]] = []

    @property
    def node_ids(self) -> list[int]:
        return self._kafka.node_ids

    def connect(self, node_id: int) -> Connection:
        address = next(each for each in self._kafka.addresses if each.node_id == node_id)
        connection = RealConnection(f"127.0.0.1:{address.ports['PLAINTEXT']}")
        self._to_close.append(connection.close)
        return connection

    def _run_again_at_end(self) -> None:
        self._to_close += [self._kafka.resume, self._kafka.start_again]

    def stop(self, node_id: int) -> None:
        self._run_again_at_end()
        self._kafka.stop(node_id)

    def kill(self, *node_ids: int) -> None:
        self._run_again_at_end()
        for node_id in node_ids:
            self._kafka.kill(node_id)

    def start(self) -> None:
        self._kafka.start_again()

    def pause(self, node_id: int) -> None:
        self._run_again_at_end()
        self._kafka.pause(node_id)

    def resume(self, node_id: int) -> None:
        self._kafka.resume(node_id)

    def set_session_timeout(self, group_id: str, timeout_ms: int) -> None:
        settings = {"consumer.session.timeout.ms": str(timeout_ms)}
        self._kafka.admin.configure_group(group_id, settings)

    def host(self) -> Host:
        host = RealHost(self._kafka.bootstrap())
        self._to_close.append(host.kill)
        return host

    def close(self) -> None:
        for close in self._to_close:
            close()
