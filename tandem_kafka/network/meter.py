"""Measures what goes over the connections, in total and for each broker."""

from __future__ import annotations

from tandem_kafka.metrics import ConsumerMetrics, Traffic
from tandem_kafka.network.request import Purpose

__all__ = ["NetworkMeter"]


class NetworkMeter:
    """Finds or makes what measures a broker's connections; used by the network thread only.

    Args:
        metrics: Where measurements go; nowhere without.
    """

    def __init__(self, metrics: ConsumerMetrics | None = None) -> None:
        self._metrics = metrics if metrics is not None else ConsumerMetrics()
        self._nodes: dict[str, Traffic] = {}

    def of(self, node_id: int, purpose: Purpose) -> Traffic:
        """Return what measures connections of a kind to a broker."""
        name = _name(node_id, purpose)
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = self._metrics.traffic(name)
        return found

    def opened(self) -> None:
        """Note that a connection was opened."""
        self._metrics.record("connections-created", 1)

    def closed(self) -> None:
        """Note that an open connection was closed."""
        self._metrics.record("connections-closed", 1)


def _name(node_id: int, purpose: Purpose) -> str:
    """Name a broker as kafka-python does, which has one more connection for the group."""
    if node_id < 0:
        return f"bootstrap-{-1 - node_id}"
    return f"coordinator-{node_id}" if purpose is Purpose.GROUP else str(node_id)
