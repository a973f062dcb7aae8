"""Selects the requested metrics, and names them as the Java client does (KIP-714)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.runtime import Clock

if TYPE_CHECKING:
    from tandem_kafka.request_managers.telemetry.otlp import Point

_DOMAIN: Final = "org.apache.kafka"
_NS_PER_MS: Final = 1_000_000

#: The broker knows it from the request.
_LEFT_OUT: Final = "client-id"


def is_requested(name: str, prefixes: tuple[str, ...]) -> bool:
    """Tell whether a name has one of the prefixes; "*" alone stands for all names."""
    return prefixes == ("*",) or name.startswith(prefixes)


class Measurements:
    """The present values of the metrics, and the last pushed ones for differences.

    Args:
        metrics: The metrics.
        prefix: The `metric_group_prefix`.
        clock: The clock.
    """

    def __init__(self, metrics: ConsumerMetrics, prefix: str, clock: Clock) -> None:
        self._metrics = metrics
        self._prefix = f"{prefix}-"
        self._clock = clock
        self._began_ns = clock.wall_ms() * _NS_PER_MS
        self._last: dict[Any, tuple[int, float]] = {}

    def forget(self) -> None:
        """Reset the deltas, because the temporality has changed."""
        self._last.clear()

    def points(self, prefixes: tuple[str, ...], *, delta: bool) -> Iterator[Point]:
        """Yield the requested metrics.

        Args:
            prefixes: Of names in the form of KIP-714.
            delta: Whether sums are differences to those of the last call.
        """
        from tandem_kafka.request_managers.telemetry.otlp import Point  # noqa: PLC0415 - rare

        now_ms, time_ns = self._clock.now_ms(), self._clock.wall_ms() * _NS_PER_MS
        for raw, metric in (self._metrics.raw() or {}).items():
            name, attributes = self._named(raw)
            if not is_requested(name, prefixes):
                continue
            value = float(metric.value(now_ms))
            # A maximum of no measurements is minus infinity.
            value = value if math.isfinite(value) else 0.0
            if not raw.name.endswith("-total"):
                yield Point(name, value, time_ns, attributes)
                continue
            start_ns, before = self._last.get(raw, (self._began_ns, 0.0))
            if delta:
                self._last[raw] = time_ns, value
            yield Point(name, value - before, time_ns, attributes, start_ns, delta)

    def _named(self, raw: Any) -> tuple[str, Mapping[str, str]]:
        """Return the full name and the attributes of a metric of kafka-python."""
        tags = {tag.replace("-", "_"): value for tag, value in raw.tags.items() if tag != _LEFT_OUT}
        # kafka-python has the broker in the group, the Java client in a tag.
        group, _, node = raw.group.partition(".")
        if node:
            tags["node_id"] = node
        if group.startswith(self._prefix):
            group = f"consumer-{group.removeprefix(self._prefix)}"
        parts = [part for part in group.lower().split("-") if part != "metrics"]
        return ".".join([_DOMAIN, *parts, *raw.name.lower().split("-")]), tags
