"""Exports the metrics of consumers to Prometheus (extra `prometheus`)."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakSet, ref

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.logs import ClientNames

_described: Final[WeakSet[ConsumerCollector]] = WeakSet()
_numbers: Final[WeakKeyDictionary[_Measured, int]] = WeakKeyDictionary()
_count: Final = itertools.count(1)
_NODE: Final = re.compile(r"\.node-(.+)$")
#: What the groups of share consumers contain.
_SHARE: Final = "-share-"
#: Beginnings of names, by the labels besides client_id and group_id.
_PREFIXES: Final = {
    (): "kafka_consumer",
    ("topic",): "kafka_consumer_topic",
    ("topic", "partition"): "kafka_consumer_partition",
    ("node",): "kafka_consumer_node",
}


class _Measured(Protocol):
    """A `KafkaConsumer`, a `ShareConsumer`, or one of those for asyncio."""

    @property
    def log_names(self) -> ClientNames:
        """The names of the consumer."""
        ...

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics."""
        ...


class ConsumerCollector(Collector):
    """Reads ``metrics()`` of consumers when Prometheus asks; any thread may do that.

    Register it: ``prometheus_client.REGISTRY.register(ConsumerCollector(consumer))``. It keeps no
    consumer alive, and exports none that has been closed. One that replaces it may have the same
    ``client_id``, in a collector of its own. Several collectors in one registry repeat the lines
    ``HELP`` and ``TYPE`` of a name. Prometheus accepts that; the Pushgateway and ``promtool`` do
    not, so give them one collector of all consumers. A registry keeps one of several collectors of
    the same consumers, and ``register()`` raises a ``ValueError`` for one of some of them.

    The names are those of the metrics with underscores, after ``kafka_consumer_``,
    ``kafka_consumer_topic_``, ``kafka_consumer_partition_`` or ``kafka_consumer_node_``. Totals are
    counters, the others are gauges. The labels are ``client_id``, ``group_id``, which is empty
    without a group, and ``topic``, ``partition`` or ``node``. Those of share consumers begin with
    ``kafka_consumer_share_``. A maximum without measurements is left out.

    Args:
        *consumers: The consumers, with metrics enabled. Each needs its own ``client_id``: of
            samples with the same labels, only that of the last consumer is exported.

    Raises:
        InvalidArgumentError: There is no consumer, or one has ``metrics_enabled=False``.
    """

    def __init__(self, *consumers: _Measured) -> None:
        if not consumers or any(each.metrics(raw=True) is None for each in consumers):
            raise InvalidArgumentError(
                "ConsumerCollector() needs at least one consumer, and each needs "
                "metrics_enabled=True"
            )
        self._consumers = (*map(ref, consumers),)
        # Made at once: the reference to an object that is gone has no hash.
        self._key = frozenset(self._consumers)

    def __eq__(self, other: object) -> bool:
        """Tell whether the other one has the same consumers, which a registry exports once."""
        return isinstance(other, ConsumerCollector) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def describe(self) -> Iterator[Metric]:
        """Return a name for each consumer, so that a registry takes none of them twice.

        It takes several collectors with the same metrics. One that is equal to another is in its
        place, so it has no names.
        """
        if self in _described:
            return
        _described.add(self)
        for each in self._consumers:
            consumer = each()
            if consumer is not None:
                # Not its client_id: a consumer that replaces a closed one may have that as well.
                number = _numbers.setdefault(consumer, next(_count))
                claimed = Metric("kafka_consumer", "A consumer", "untyped")
                claimed.name = (
                    f"consumer {number}, which is in another ConsumerCollector of this registry: "
                    "unregister that one, or leave the consumer out of this one"
                )
                yield claimed

    def collect(self) -> Iterator[Metric]:
        """Return a family for each metric."""
        measured: dict[tuple[Any, str], Any] = {}
        for each in self._consumers:
            consumer = each()
            if consumer is not None:
                group_id = consumer.log_names.group_id or ""
                found = consumer.metrics(raw=True)  # a closed one has none
                measured |= {(metric, group_id): of for metric, of in found.items()}
        families: dict[str, Any] = {}
        for (metric, group_id), of in measured.items():
            value = of.value()
            if math.isfinite(value):
                _add(families, metric, group_id, value)
        yield from families.values()


def _add(families: dict[str, Any], metric: Any, group_id: str, value: float) -> None:
    labels = {tag: metric.tags[tag] for tag in ("topic", "partition") if tag in metric.tags}
    node = _NODE.search(metric.group)
    if node is not None:
        labels["node"] = node[1]
    prefix = _PREFIXES[tuple(labels)]
    if _SHARE in metric.group:
        prefix = prefix.replace("kafka_consumer", "kafka_consumer_share")
    name = f"{prefix}_{metric.name.replace('-', '_')}"
    family = families.get(name)
    if family is None:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(
            name, metric.description or metric.name, labels=["client_id", "group_id", *labels]
        )
        families[name] = family
    family.add_metric([metric.tags["client-id"], group_id, *labels.values()], value)
