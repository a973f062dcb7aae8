"""What the consumer measures, kept by kafka-python's metrics library.

A sensor has one writer, the thread named beside it in `SENSORS`, and is told once per request or
per poll(), never per record. Gauges are read when somebody asks. Names are those of
kafka-python and the Java client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from kafka.metrics import AnonMeasurable, MetricConfig, Metrics
from kafka.metrics.stats.rate import TimeUnit

from tandem_kafka.config import Config
from tandem_kafka.runtime import Clock
from tandem_kafka.statistics import (
    Avg,
    Batch,
    Max,
    Occurrences,
    Total,
    occurrence_rate,
    rate,
)
from tandem_kafka.types import TopicPartition

__all__ = ["AGES", "CONSUMER", "COORDINATOR", "FETCH", "SENSORS", "ConsumerMetrics", "Gauge"]

Gauge = Callable[[], float]

FETCH: Final = "fetch-manager-metrics"
COORDINATOR: Final = "coordinator-metrics"
CONSUMER: Final = "metrics"


#: Measurements are written to the statistics this often while there are any.
FLUSH_MS = 100


def _per_hour() -> Any:
    return occurrence_rate(TimeUnit.HOURS)


#: Sensor: (writer, group, statistics by metric name, what is measured).
SENSORS: Final[Mapping[str, tuple[str, str, Mapping[str, Callable[[], Any]], str]]] = {
    "fetch-latency": (
        "network",
        FETCH,
        {
            "fetch-latency-avg": Avg,
            "fetch-latency-max": Max,
            "fetch-rate": occurrence_rate,
            "fetch-total": Occurrences,
        },
        "time a fetch takes, in ms",
    ),
    "fetch-size": (
        "network",
        FETCH,
        {
            "fetch-size-avg": Avg,
            "fetch-size-max": Max,
            "bytes-consumed-rate": rate,
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
            "records-consumed-rate": rate,
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
            "commit-rate": occurrence_rate,
            "commit-total": Occurrences,
        },
        "time a commit takes, in ms",
    ),
    "heartbeat-latency": (
        "network",
        COORDINATOR,
        {
            "heartbeat-response-time-max": Max,
            "heartbeat-rate": occurrence_rate,
            "heartbeat-total": Occurrences,
        },
        "time a heartbeat takes, in ms",
    ),
    "join-latency": (
        "network",
        COORDINATOR,
        {
            "join-time-avg": Avg,
            "join-time-max": Max,
            "join-rate": occurrence_rate,
            "join-total": Occurrences,
        },
        "time JoinGroup takes, in ms",
    ),
    "sync-latency": (
        "network",
        COORDINATOR,
        {
            "sync-time-avg": Avg,
            "sync-time-max": Max,
            "sync-rate": occurrence_rate,
            "sync-total": Occurrences,
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
            "rebalance-total": Occurrences,
            "rebalance-rate-per-hour": _per_hour,
        },
        "time a rebalance takes until the listener has taken the assignment over, in ms",
    ),
    "failed-rebalance": (
        "network",
        COORDINATOR,
        {
            "failed-rebalance-total": Occurrences,
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


class _Sensor:
    """A sensor of kafka-python, and what has been measured since it was last written."""

    __slots__ = ("_due_ms", "_measured", "_sensor")

    def __init__(self, sensor: Any) -> None:
        self._sensor = sensor
        # Safe to append to while another thread, which reads the metrics, takes from it.
        self._measured: deque[float] = deque()
        self._due_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        self._measured.append(value)
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + FLUSH_MS
            self.flush(now_ms)

    def flush(self, now_ms: int) -> None:
        taken = []
        with suppress(IndexError):  # the other thread may take from it too
            while self._measured:
                taken.append(self._measured.popleft())
        if taken:
            self._sensor.record(Batch(len(taken), sum(taken), max(taken)), now_ms)


class ConsumerMetrics:
    """The metrics of one consumer; does nothing when they are switched off."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        self._prefix = config.metric_group_prefix
        self._registry: Any = None
        self._sensors: dict[str, _Sensor] = {}
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
        self._flush()
        return None if self._registry is None else dict(self._registry.metrics)

    def values(self) -> dict[str, dict[str, float]] | None:
        """Return values by group and name, None when switched off.

        What belongs to a topic or partition stands in a group of its own, for example
        ``consumer-fetch-manager-metrics.topic-orders.partition-0``.
        """
        if self._registry is None:
            return None
        now_ms = self._flush()
        groups: dict[str, dict[str, float]] = {}
        for name, metric in dict(self._registry.metrics).items():
            extra = [f"{tag}-{value}" for tag, value in name.tags.items() if tag != "client-id"]
            group = ".".join([name.group, *extra])
            groups.setdefault(group, {})[name.name] = metric.value(now_ms)
        return groups

    def _flush(self) -> int:
        now_ms = self._clock.now_ms()
        for sensor in tuple(self._sensors.values()):
            sensor.flush(now_ms)
        return now_ms

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
    ) -> _Sensor:
        sensor = self._registry.sensor(name)
        for metric, statistic in statistics.items():
            full_name = self._name(metric, group, meaning, tags)
            # Ctrl-C in the first poll() with records may have left it; a second one is refused.
            self._registry.remove_metric(full_name)
            sensor.add(full_name, statistic())
        return _Sensor(sensor)

    def _name(self, name: str, group: str, meaning: str, tags: Mapping[str, str]) -> Any:
        return self._registry.metric_name(name, f"{self._prefix}-{group}", meaning, dict(tags))


def _tags(tp: TopicPartition) -> dict[str, str]:
    return {"topic": tp.topic, "partition": str(tp.partition)}
