"""The simulated cluster: its brokers, its transactions, and scripted responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tandem_kafka.runtime import Random
from tandem_kafka_testing.cluster.broker import SimBroker
from tandem_kafka_testing.cluster.call import Handler
from tandem_kafka_testing.cluster.cluster_state import ClusterState
from tandem_kafka_testing.cluster.releases import release_named
from tandem_kafka_testing.cluster.scripts import Scripts
from tandem_kafka_testing.cluster.transactions import Transaction
from tandem_kafka_testing.network import Address, SimNetwork

PORT = 9092


class SimCluster(ClusterState):
    """Brokers that handle requests; topics, groups and faults are those of `ClusterState`.

    Args:
        addresses: Hosts and ports of the first brokers; the others have their own hosts.
    """

    def __init__(
        self,
        network: SimNetwork,
        random: Random,
        brokers: int = 1,
        kafka: str | None = None,
        racks: Sequence[str] = (),
        *,
        addresses: Sequence[Address] = (),
    ) -> None:
        super().__init__(network, random, kafka, racks)
        self._addresses = dict(enumerate(addresses, 1))
        self._scripts = Scripts()
        for node_id in range(1, brokers + 1):
            self.add_broker(node_id)

    def add_broker(self, node_id: int) -> SimBroker:
        """Start a new broker."""
        release = None if self.kafka is None else release_named(self.kafka)
        address = self._addresses.get(node_id, (f"10.0.0.{node_id}", PORT))
        broker = SimBroker(self, self._scripts, node_id, address, release)
        broker.rack = self.next_rack()
        self.brokers[node_id] = broker
        self.network.listen(broker.address, broker)
        return broker

    def transaction(self, producer_id: int | None = None) -> Transaction:
        """Begin a transaction.

        Args:
            producer_id: The producer of an earlier transaction; None for a new producer.
        """
        if producer_id is None:
            producer_id = self.transactions.new_producer_id()
        return Transaction(self, producer_id)

    def script(self, api: Any, *handlers: Handler | Any) -> None:
        """Set the responses to the next requests of an API.

        Args:
            api: A message class, request or response.
            *handlers: One for each request: the response, or a function of the `Call`. The function
                returns a response (`call.default()` for that of the broker), `DROP` or `CUT`, and
                may set `call.delay_ms`.
        """
        self._scripts.add(api, *handlers)
