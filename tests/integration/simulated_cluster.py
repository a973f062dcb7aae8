"""A simulated cluster for tests that hold on a real one too.

A test marked `both_clusters` runs on the simulated cluster, then on the real one; with
`everyday="simulated"`, on the real one with `--all` only. What only a real one has (processes that
are paused, compaction) is marked `real_cluster` with the reason.
"""

from __future__ import annotations

from typing import Protocol

import pytest

from tandem_kafka_testing.kafka.admin import ClusterAdmin
from tandem_kafka_testing.served import ServedKafka

__all__ = ["Cluster", "SimulatedCluster", "choose_clusters"]


class Cluster(Protocol):
    """What such a test uses of `RealKafka`."""

    admin: ClusterAdmin

    def bootstrap(self) -> str:
        """Return the value for `bootstrap_servers`."""


class SimulatedCluster:
    """A served simulated cluster, with the settings of the real one of these tests."""

    def __init__(self, served: ServedKafka) -> None:
        self._served = served
        self.admin = ClusterAdmin(served.bootstrap)
        served.perform(lambda cluster: setattr(cluster, "auto_create", False))

    def bootstrap(self) -> str:
        """Return the value for `bootstrap_servers`."""
        return self._served.bootstrap


def choose_clusters(metafunc: pytest.Metafunc) -> None:
    """Let a test run on both clusters if it is marked so."""
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
        where = [real] if alone else ["simulated", real]
        metafunc.parametrize("kafka", where, indirect=True, scope="session")
