"""Measures the traffic on connections, in total and for each broker."""

from __future__ import annotations

from tandem_kafka.metrics import ConsumerMetrics, Traffic
from tandem_kafka.network.request import Purpose


class NetworkMeter:
    """Returns the recorders of brokers' connections. Network thread only.

    Args:
        metrics: The metrics of the consumer; without them nothing is recorded.
    """

    def __init__(self, metrics: ConsumerMetrics | None = None) -> None:
        self._metrics = metrics if metrics is not None else ConsumerMetrics()
        self._nodes: dict[str, Traffic] = {}

    def of(self, node_id: int, purpose: Purpose) -> Traffic:
        """Return the recorder for a broker's connection."""
        name = _name(node_id, purpose)
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = self._metrics.traffic(name)
        return found

    def opened(self) -> None:
        """Record that a connection was opened."""
        self._metrics.record("connections-created", 1)

    def closed(self) -> None:
        """Record that an open connection was closed."""
        self._metrics.record("connections-closed", 1)


def _name(node_id: int, purpose: Purpose) -> str:
    """Return the name of a broker as in kafka-python, with a separate one for the coordinator."""
    if node_id < 0:
        return f"bootstrap-{-1 - node_id}"
    return f"coordinator-{node_id}" if purpose is Purpose.GROUP else str(node_id)
