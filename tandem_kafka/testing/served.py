"""The object of the fixture `kafka_broker`: a cluster over TCP, embedded or real."""

from __future__ import annotations

import os
from typing import Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tandem_kafka.testing.embedded import MockCluster

__all__ = ["ServedKafka", "named_cluster"]

#: The environment variable that names a real cluster to test against, and its former name.
_VARIABLES = ("TANDEM_KAFKA_TEST_BROKERS", "TANDEM_BOOTSTRAP_SERVERS")

_TIMEOUT_S = 30.0


def named_cluster() -> str | None:
    """Return the bootstrap servers of the real cluster that the environment names, if any."""
    return next((found for name in _VARIABLES if (found := os.environ.get(name))), None)


class ServedKafka:
    """A cluster with an address; as a context manager, it closes the embedded cluster.

    Attributes:
        bootstrap: The value for `bootstrap_servers`.
        real: False for the cluster embedded in librdkafka.
    """

    def __init__(self, bootstrap: str | None = None, brokers: int = 1) -> None:
        self.real = bootstrap is not None
        self._mock = None
        if bootstrap is None:
            self._mock = MockCluster(brokers, initial_rebalance_delay_ms=0)
            bootstrap = self._mock.bootstrap
        self.bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the embedded cluster; a real one keeps running."""
        if self._mock is not None:
            self._mock.close()

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic; returns its name."""
        if self._mock is not None:
            self._mock.create_topic(name, partitions)
            return name
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        created = admin.create_topics([NewTopic(name, partitions)])
        created[name].result(_TIMEOUT_S)
        return name

    def produce(self, topic: str, *values: bytes | None, partition: int = 0) -> None:
        """Append records, and wait until the cluster has accepted them.

        Raises:
            TimeoutError: The cluster did not accept them in time.
        """
        for value in values:
            self._producer.produce(topic, value=value, partition=partition)
        missing = self._producer.flush(_TIMEOUT_S)
        if missing:
            msg = f"{self.bootstrap} did not accept {missing} records within {_TIMEOUT_S:.0f} s"
            raise TimeoutError(msg)
