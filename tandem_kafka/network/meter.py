"""Measures what goes over the connections, in total and for each broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem_kafka.metrics import ConsumerMetrics, Meter
from tandem_kafka.network.request import Purpose

__all__ = ["NetworkMeter", "NodeMeter"]


class NodeMeter:
    """Takes the measurements of one broker."""

    def __init__(self, meters: Mapping[str, Meter]) -> None:
        self.sent = meters["bytes-sent"]
        self.received = meters["bytes-received"]
        self._latency = meters["request-latency"]
        self._throttle = meters["throttle-time"]

    def answered(self, latency_ms: float, message: Any) -> None:
        """Note the answer to a request."""
        self._latency(latency_ms)
        throttle_ms = getattr(message, "throttle_time_ms", None)
        if throttle_ms is not None:
            self._throttle(throttle_ms)


class NetworkMeter:
    """Finds or makes the meter of a broker; used by the network thread only.

    Args:
        metrics: Where measurements go; nowhere without.
    """

    def __init__(self, metrics: ConsumerMetrics | None = None) -> None:
        self._metrics = metrics if metrics is not None else ConsumerMetrics()
        self._nodes: dict[str, NodeMeter] = {}

    def of(self, node_id: int, purpose: Purpose) -> NodeMeter:
        """Return the meter for connections of a kind to a broker."""
        name = _name(node_id, purpose)
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = NodeMeter(self._metrics.traffic(name))
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
