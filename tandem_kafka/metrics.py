"""What the consumer measures, kept by kafka-python's metrics library.

A sensor has one writer, the thread named beside it in `SENSORS`, and is written once per request
or per poll(), never per record. Gauges are read when somebody asks. Names are those of
kafka-python and the Java client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kafka.metrics import AnonMeasurable, MetricConfig, Metrics
from kafka.metrics.stats import Avg, Count, Max, Rate, Total
from kafka.metrics.stats.rate import TimeUnit

from tandem_kafka.config import Config
from tandem_kafka.runtime import Clock
from tandem_kafka.types import TopicPartition

__all__ = ["AGES", "CONSUMER", "COORDINATOR", "FETCH", "SENSORS", "ConsumerMetrics", "Gauge"]

Gauge = Callable[[], float]

FETCH: Final = "fetch-manager-metrics"
COORDINATOR: Final = "coordinator-metrics"
CONSUMER: Final = "metrics"


class _Occurrences(Total):
    """Counts how often something was recorded, since the start."""

    def record(self, config: Any, value: float, now: float) -> None:  # noqa: ARG002 - the interface
        super().record(config, 1, now)


def _per_hour() -> Rate:
    return Rate(TimeUnit.HOURS, Count())


#: Sensor: (writer, group, statistics by metric name, what is measured).
SENSORS: Final[Mapping[str, tuple[str, str, Mapping[str, Callable[[], Any]], str]]] = {
    "fetch-latency": (
        "network",
        FETCH,
        {
            "fetch-latency-avg": Avg,
            "fetch-latency-max": Max,
            "fetch-rate": lambda: Rate(sampled_stat=Count()),
            "fetch-total": _Occurrences,
        },
        "time a fetch takes, in ms",
    ),
    "fetch-size": (
        "network",
        FETCH,
        {
            "fetch-size-avg": Avg,
            "fetch-size-max": Max,
            "bytes-consumed-rate": Rate,
            "bytes-consumed-total": Total,
        },
        "bytes of records in a fetch",
    ),
    "fetch-throttle-time": (
        "network",
        FETCH,
        {"fetch-throttle-time-avg": Avg, "fetch-throttle-time-max": Max},
        "time for which the broker throttles fetches, in ms",
    ),
    "records": (
        "application",
        FETCH,
        {
            "records-per-request-avg": Avg,
            "records-consumed-rate": Rate,
            "records-consumed-total": Total,
        },
        "records that a poll() returned",
    ),
    "commit-latency": (
        "network",
        COORDINATOR,
        {
            "commit-latency-avg": Avg,
            "commit-latency-max": Max,
            "commit-rate": lambda: Rate(sampled_stat=Count()),
            "commit-total": _Occurrences,
        },
        "time a commit takes, in ms",
    ),
    "heartbeat-latency": (
        "network",
        COORDINATOR,
        {
            "heartbeat-response-time-max": Max,
            "heartbeat-rate": lambda: Rate(sampled_stat=Count()),
            "heartbeat-total": _Occurrences,
        },
        "time a heartbeat takes, in ms",
    ),
    "join-latency": (
        "network",
        COORDINATOR,
        {
            "join-time-avg": Avg,
            "join-time-max": Max,
            "join-rate": lambda: Rate(sampled_stat=Count()),
            "join-total": _Occurrences,
        },
        "time JoinGroup takes, in ms",
    ),
    "sync-latency": (
        "network",
        COORDINATOR,
        {
            "sync-time-avg": Avg,
            "sync-time-max": Max,
            "sync-rate": lambda: Rate(sampled_stat=Count()),
            "sync-total": _Occurrences,
        },
        "time SyncGroup takes, in ms",
    ),
    "rebalance-latency": (
        "network",
        COORDINATOR,
        {
            "rebalance-latency-avg": Avg,
            "rebalance-latency-max": Max,
            "rebalance-latency-total": Total,
            "rebalance-total": _Occurrences,
            "rebalance-rate-per-hour": _per_hour,
        },
        "time a rebalance takes until the listener has taken the assignment over, in ms",
    ),
    "failed-rebalance": (
        "network",
        COORDINATOR,
        {
            "failed-rebalance-total": _Occurrences,
            "failed-rebalance-rate-per-hour": _per_hour,
        },
        "rebalances that came to nothing",
    ),
    "partition-assigned-latency": (
        "application",
        COORDINATOR,
        {"partition-assigned-latency-avg": Avg, "partition-assigned-latency-max": Max},
        "time on_partitions_assigned takes, in ms",
    ),
    "partition-revoked-latency": (
        "application",
        COORDINATOR,
        {"partition-revoked-latency-avg": Avg, "partition-revoked-latency-max": Max},
        "time on_partitions_revoked takes, in ms",
    ),
    "partition-lost-latency": (
        "application",
        COORDINATOR,
        {"partition-lost-latency-avg": Avg, "partition-lost-latency-max": Max},
        "time on_partitions_lost takes, in ms",
    ),
    "time-between-poll": (
        "application",
        CONSUMER,
        {"time-between-poll-avg": Avg, "time-between-poll-max": Max},
        "time between two calls of poll(), in ms",
    ),
    "poll-idle": (
        "application",
        CONSUMER,
        {"poll-idle-ratio-avg": Avg},
        "share of the time that the application spends waiting in poll()",
    ),
}


#: Gauge of the seconds since something happened last, -1 before: (writer, group, meaning).
AGES: Final[Mapping[str, tuple[str, str, str]]] = {
    "last-heartbeat-seconds-ago": ("network", COORDINATOR, "since the last heartbeat was sent"),
    "last-rebalance-seconds-ago": ("network", COORDINATOR, "since the last rebalance succeeded"),
}


class ConsumerMetrics:
    """The metrics of one consumer; does nothing when they are switched off."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        self._prefix = config.metric_group_prefix
        self._registry: Any = None
        self._sensors: dict[str, Any] = {}
        self._partitions: set[TopicPartition] = set()
        self._happened_ms: dict[str, int] = {}
        if config.metrics_enabled:
            self._registry = Metrics(
                MetricConfig(
                    samples=config.metrics_num_samples,
                    time_window_ms=config.metrics_sample_window_ms,
                    tags={"client-id": config.client_id or ""},
                )
            )
            for name, (_, group, statistics, meaning) in SENSORS.items():
                self._sensors[name] = self._sensor(name, group, statistics, meaning, {})
            for name, (_, group, meaning) in AGES.items():
                self.gauge(name, group, meaning, lambda name=name: self._age(name))  # type: ignore[misc]

    def record(self, sensor: str, value: float) -> None:
        """Write one measurement."""
        found = self._sensors.get(sensor)
        if found is not None:
            found.record(value, self._clock.now_ms())

    def happened(self, age: str) -> None:
        """Note that something of `AGES` happens now."""
        self._happened_ms[age] = self._clock.now_ms()

    def _age(self, name: str) -> float:
        then_ms = self._happened_ms.get(name)
        return -1.0 if then_ms is None else (self._clock.now_ms() - then_ms) / 1_000

    def record_topic(self, sensor: str, topic: str, value: float) -> None:
        """Write one measurement of a topic."""
        if self._registry is None:
            return
        key = f"{sensor} of {topic}"
        found = self._sensors.get(key)
        if found is None:
            _, group, statistics, meaning = SENSORS[sensor]
            tags = {"topic": topic}
            found = self._sensors[key] = self._sensor(key, group, statistics, meaning, tags)
        found.record(value, self._clock.now_ms())

    def gauge(
        self,
        name: str,
        group: str,
        meaning: str,
        value: Gauge,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Register a value that is read when somebody asks."""
        if self._registry is not None:
            metric = self._name(name, group, meaning, tags or {})
            self._registry.add_metric(metric, AnonMeasurable(lambda _config, _now: value()))

    def follow_partitions(
        self,
        partitions: Iterable[TopicPartition],
        gauges: Callable[[TopicPartition], Mapping[str, Gauge]],
    ) -> None:
        """Have gauges for these partitions and no others."""
        if self._registry is None:
            return
        wanted = set(partitions)
        for tp in self._partitions - wanted:
            for name in gauges(tp):
                self._registry.remove_metric(self._name(name, FETCH, "", _tags(tp)))
        for tp in wanted - self._partitions:
            for name, value in gauges(tp).items():
                self.gauge(name, FETCH, f"{name} of the partition", value, _tags(tp))
        self._partitions = wanted

    def raw(self) -> Any:
        """Return kafka-python's metric objects by name, None when switched off."""
        return None if self._registry is None else dict(self._registry.metrics)

    def values(self) -> dict[str, dict[str, float]] | None:
        """Return values by group and name, None when switched off.

        What belongs to a topic or partition stands in a group of its own, for example
        ``consumer-fetch-manager-metrics.topic-orders.partition-0``.
        """
        if self._registry is None:
            return None
        now_ms = self._clock.now_ms()
        groups: dict[str, dict[str, float]] = {}
        for name, metric in dict(self._registry.metrics).items():
            extra = [f"{tag}-{value}" for tag, value in name.tags.items() if tag != "client-id"]
            group = ".".join([name.group, *extra])
            groups.setdefault(group, {})[name.name] = metric.value(now_ms)
        return groups

    def close(self) -> None:
        """Let go of the registry."""
        if self._registry is not None:
            self._registry.close()

    def _sensor(
        self,
        name: str,
        group: str,
        statistics: Mapping[str, Callable[[], Any]],
        meaning: str,
        tags: Mapping[str, str],
    ) -> Any:
        sensor = self._registry.sensor(name)
        for metric, statistic in statistics.items():
            sensor.add(self._name(metric, group, meaning, tags), statistic())
        return sensor

    def _name(self, name: str, group: str, meaning: str, tags: Mapping[str, str]) -> Any:
        return self._registry.metric_name(name, f"{self._prefix}-{group}", meaning, dict(tags))


def _tags(tp: TopicPartition) -> dict[str, str]:
    return {"topic": tp.topic, "partition": str(tp.partition)}
