"""The consumer's metrics, based on kafka-python's metrics library.

A sensor has one writer, the thread named in `SENSORS`, and records one measurement per request or
poll(), never per record. Gauges are computed on demand. Names are those of kafka-python and the
Java client.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from kafka.metrics import AnonMeasurable, MetricConfig, Metrics
from kafka.metrics.metrics_reporter import AbstractMetricsReporter

from tandem_kafka.config import Config
from tandem_kafka.metrics.sensors import (
    AGES,
    CONSUMER,
    FETCH,
    NODE,
    OPERATIONS,
    SENSORS,
    SHARE_AGES,
    SHARE_SENSORS,
    TRAFFIC,
)
from tandem_kafka.metrics.statistics import Batch
from tandem_kafka.runtime import Clock, MonotonicClock, new_lock
from tandem_kafka.types import TopicPartition

Gauge = Callable[[], float]

#: Records a measurement.
Meter = Callable[[float], None]

#: The interval at which measurements are written to the statistics.
FLUSH_MS = 500
#: The interval at which measurements of other origin are collected.
COLLECT_MS = 1_000
#: How long the metrics of a topic outlast its assignment.
FORGET_MS = 300_000


class MetricChange(NamedTuple):
    """A metric that has been added or removed.

    Attributes:
        metric: The metric object of kafka-python.
        present: False if it has been removed.
    """

    metric: Any
    present: bool


class _Changes(AbstractMetricsReporter):
    """Records changes made on any thread, for the application thread."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.noted: deque[MetricChange] = deque()
        self._changed = changed

    def init(self, metrics: Iterable[Any]) -> None:
        for metric in metrics:
            self.metric_change(metric)

    def metric_change(self, metric: Any) -> None:
        self.noted.append(MetricChange(metric, True))
        self._changed()

    def metric_removal(self, metric: Any) -> None:
        self.noted.append(MetricChange(metric, False))
        self._changed()

    def configure(self, configs: Any) -> None:
        pass

    def close(self) -> None:
        pass


_Statistics = Mapping[str, Callable[[], Any]]


class _Sensor:
    """A sensor of kafka-python, and the measurements that have not been written to it yet."""

    __slots__ = ("_due_ms", "_measured", "_sensor", "note")

    def __init__(self, sensor: Any) -> None:
        self._sensor = sensor
        # A deque, because one thread may append while another one reads the metrics.
        self._measured: deque[float] = deque()
        self._due_ms = 0
        #: Stores a measurement for the next `flush`.
        self.note = self._measured.append

    def record(self, value: float, now_ms: int) -> None:
        self.note(value)
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + FLUSH_MS
            self.flush(now_ms)

    def add(self, sizes: tuple[int, float, float], now_ms: int) -> None:
        """Write several measurements: their number, sum and maximum."""
        if sizes[0]:
            self._sensor.record(Batch(*sizes), now_ms)

    def flush(self, now_ms: int) -> None:
        taken = []
        with suppress(IndexError):  # another thread may flush at the same time
            while self._measured:
                taken.append(self._measured.popleft())
        if taken:
            self._sensor.record(Batch(len(taken), sum(taken), max(taken)), now_ms)


class Traffic:
    """The traffic on the connections to a broker. Writer: the network thread.

    There are four measurements per request, so they are written together and share one reading of
    the clock.

    Attributes:
        sent: Records the bytes of a request.
        received: Records the bytes of a response.
    """

    def __init__(self, sensors: Mapping[str, _Sensor], clock: Clock) -> None:
        self._sensors = tuple(sensors.values())
        self._by_name = dict(sensors)
        self._clock = clock
        self._due_ms = 0
        self.sent: Meter = _noting(sensors, "bytes-sent")
        self.received: Meter = _noting(sensors, "bytes-received")
        self._latency: Meter = _noting(sensors, "request-latency")
        self._throttle: Meter = _noting(sensors, "throttle-time")

    def responded(self, latency_ms: float, throttle_ms: float) -> None:
        """Record the response to a request, and write the measurements if that is due."""
        self._latency(latency_ms)
        self._throttle(throttle_ms)
        now_ms = self._clock.now_ms()
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + FLUSH_MS
            for sensor in self._sensors:
                sensor.flush(now_ms)

    def repeated(
        self,
        received: tuple[int, int, int],
        sent: tuple[int, int, int],
        latencies_ms: tuple[int, int, int],
    ) -> None:
        """Record the repetitions of a standing fetch, each as number, sum and maximum."""
        now_ms = self._clock.now_ms()
        for name, sizes in (
            ("bytes-received", received),
            ("bytes-sent", sent),
            ("request-latency", latencies_ms),
            ("throttle-time", (received[0], 0, 0)),
        ):
            if name in self._by_name:
                self._by_name[name].add(sizes, now_ms)


def _noting(sensors: Mapping[str, _Sensor], name: str) -> Meter:
    return sensors[name].note if name in sensors else _ignore


class ConsumerMetrics:
    """The metrics of one consumer; does nothing if they are disabled or without a config."""

    #: The interval for `ReaderMeasurements`, whose module does not import this one.
    flush_ms: Final = FLUSH_MS

    def __init__(self, config: Config | None = None, clock: Clock | None = None) -> None:
        self._clock = clock if clock is not None else MonotonicClock()
        shares = config is not None and config.shares
        self._sensors_of, ages = (SHARE_SENSORS, SHARE_AGES) if shares else (SENSORS, AGES)
        self._prefix = config.metric_group_prefix if config is not None else ""
        if shares:
            self._prefix += "-share"
        self._registry: Any = None
        self._totals: dict[str, Any] = {}
        self._sensors: dict[str, _Sensor] = {}
        #: Held while sensors of topics come and go, by the threads that record or read metrics.
        self._creating = new_lock()
        #: The sensors of topics, by topic and then by sensor.
        self._of_topics: dict[str, dict[str, _Sensor]] = {}
        #: Since when a topic with sensors is not assigned. Writer: the network thread.
        self._left_ms: dict[str, int] = {}
        self._partitions: set[TopicPartition] = set()
        self._happened_ms: dict[str, int] = {}
        #: Called on any thread before the values are read: measurements not recorded yet.
        self.sources: list[Callable[[], None]] = []
        self._collect_ms = 0
        if config is not None and config.metrics_enabled:
            self._registry = Metrics(
                MetricConfig(
                    samples=config.metrics_num_samples,
                    time_window_ms=config.metrics_sample_window_ms,
                    tags={"client-id": config.client_id or ""},
                )
            )
            for name, of in self._sensors_of.items():
                self._sensors[name] = _Sensor(self._made(name, of.group, of.statistics, of.meaning))
            self._totals = self._total_traffic()
            for name, age in ages.items():
                self.gauge(name, age.group, age.meaning, partial(self._age, name))

    def record(self, sensor: str, value: float) -> None:
        """Record one measurement."""
        found = self._sensors.get(sensor)
        if found is not None:
            found.record(value, self._clock.now_ms())

    def happened(self, age: str, ago_ms: int = 0) -> None:
        """Record that an event of `AGES` happens now, or has happened."""
        self._happened_ms[age] = self._clock.now_ms() - ago_ms

    def since_ms(self, age: str) -> int | None:
        """Return the time since an event of `AGES`, None before the first; for any thread."""
        self._collect()
        then_ms = self._happened_ms.get(age)
        return None if then_ms is None else self._clock.now_ms() - then_ms

    def _age(self, name: str) -> float:
        since_ms = self.since_ms(name)
        return -1.0 if since_ms is None else since_ms / 1_000

    @property
    def enabled(self) -> bool:
        """Whether anything is measured."""
        return self._registry is not None

    def record_all(self, sensor: str, sizes: tuple[int, float, float], topic: str = "") -> None:
        """Record several measurements, of a topic if given: their number, sum and maximum."""
        found = self._topic_sensor(sensor, topic) if topic else self._sensors.get(sensor)
        if found is not None:
            found.add(sizes, self._clock.now_ms())

    def record_topic(self, sensor: str, topic: str, value: float) -> None:
        """Record one measurement of a topic."""
        found = self._topic_sensor(sensor, topic)
        if found is not None:
            found.record(value, self._clock.now_ms())

    def _topic_sensor(self, sensor: str, topic: str) -> _Sensor | None:
        if self._registry is None:
            return None
        found = self._of_topics.get(topic, {}).get(sensor)
        if found is None:
            with self._creating:
                # Another thread may have created it meanwhile.
                sensors = self._of_topics.setdefault(topic, {})
                found = sensors.get(sensor)
                if found is None:
                    found = sensors[sensor] = self._create_topic_sensor(sensor, topic)
        return found

    def _create_topic_sensor(self, sensor: str, topic: str) -> _Sensor:
        of, tags = self._sensors_of[sensor], {"topic": _tag(topic)}
        name = _of_topic(sensor, topic)
        return _Sensor(self._made(name, of.group, of.statistics, of.meaning, tags=tags))

    def follow_topics(self, assigned: Collection[str]) -> None:
        """Remove the metrics of topics that have not been assigned for `FORGET_MS`.

        Until then, a topic that a rebalance takes away and gives back counts on.

        Args:
            assigned: The topics of the assignment, which may have changed.
        """
        now_ms = self._clock.now_ms()
        with self._creating:
            for topic in tuple(self._of_topics):
                if topic in assigned:
                    self._left_ms.pop(topic, None)
                elif now_ms - self._left_ms.setdefault(topic, now_ms) >= FORGET_MS:
                    del self._left_ms[topic]
                    for sensor in self._of_topics.pop(topic):
                        self._registry.remove_sensor(_of_topic(sensor, topic))

    def _total_traffic(self) -> dict[str, Any]:
        """Create the sensors that sum up the measurements of all brokers."""
        operations = self._made("bytes-sent-received", CONSUMER, OPERATIONS, "requests, responses")
        parents = {"bytes-sent": [operations], "bytes-received": [operations]}
        return {
            name: self._made(name, CONSUMER, statistics, meaning, parents=parents.get(name, ()))
            for name, (statistics, meaning) in TRAFFIC.items()
        }

    def traffic(self, node: str) -> Traffic:
        """Return the recorder for the connections to a broker.

        Args:
            node: The broker's name in the metric group, for example ``1`` or ``coordinator-1``.
        """
        made = {}
        if self._registry is not None:
            for name, (statistics, meaning) in TRAFFIC.items():
                key, group = f"node-{node}.{name}", f"{NODE}.node-{node}"
                parents = (self._totals[name],)
                made[name] = _Sensor(self._made(key, group, statistics, meaning, parents=parents))
                self._sensors[key] = made[name]
        return Traffic(made, self._clock)

    def gauge(
        self,
        name: str,
        group: str,
        meaning: str,
        value: Gauge,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Register a value that is computed on demand."""
        if self._registry is not None:
            metric = self._name(name, group, meaning, tags or {})
            self._registry.add_metric(metric, AnonMeasurable(lambda _config, _now: value()))

    def follow_partitions(
        self,
        partitions: Iterable[TopicPartition],
        gauges: Callable[[TopicPartition], Mapping[str, Gauge]],
    ) -> None:
        """Register gauges for these partitions, and remove those of all others."""
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
        self.follow_topics({tp.topic for tp in wanted})

    def note_changes(self, changed: Callable[[], None]) -> deque[MetricChange]:
        """Return a queue of the present metrics and of all later changes.

        The caller must empty it after `changed()` was called, which any thread does.
        """
        changes = _Changes(changed)
        if self._registry is not None:
            self._registry.add_reporter(changes)
        return changes.noted

    def raw(self) -> Any:
        """Return kafka-python's metric objects by name, or None if metrics are disabled."""
        self._flush()
        return None if self._registry is None else dict(self._registry.metrics)

    def values(self) -> dict[str, dict[str, float]] | None:
        """Return values by group and name, or None if metrics are disabled.

        Each topic and each partition has its own group, for example
        ``consumer-fetch-manager-metrics.topic-orders.partition-0``.
        """
        if self._registry is None:
            return None
        now_ms = self._flush()
        groups: dict[str, dict[str, float]] = {}
        for name, metric in dict(self._registry.metrics).items():
            extra = [f"{tag}-{value}" for tag, value in name.tags.items() if tag != "client-id"]
            group = ".".join([name.group, *extra])
            value = metric.value(now_ms)
            # A maximum of no measurements is minus infinity, which JSON and most dashboards reject.
            groups.setdefault(group, {})[name.name] = value if math.isfinite(value) else 0.0
        return groups

    def collect(self, now_ms: int) -> None:
        """Record the measurements of `sources` once per second, so that rates are right."""
        if now_ms >= self._collect_ms:
            self._collect_ms = now_ms + COLLECT_MS
            self._collect()

    def _collect(self) -> None:
        for collect in tuple(self.sources):
            collect()

    def _flush(self) -> int:
        self._collect()
        now_ms = self._clock.now_ms()
        of_topics = [tuple(each.values()) for each in tuple(self._of_topics.values())]
        for sensor in chain(tuple(self._sensors.values()), *of_topics):
            sensor.flush(now_ms)
        return now_ms

    def close(self) -> None:
        """Remove all metrics, as kafka-python does; those of a closed consumer would mislead."""
        if self._registry is not None:
            self._registry.close()

    def _made(
        self,
        name: str,
        group: str,
        statistics: _Statistics,
        meaning: str,
        *,
        tags: Mapping[str, str] | None = None,
        parents: Iterable[Any] = (),
    ) -> Any:
        """Create a sensor of kafka-python; parents receive each of its measurements too."""
        sensor = self._registry.sensor(name, parents=list(parents))
        for metric, statistic in statistics.items():
            full_name = self._name(metric, group, meaning, tags or {})
            # Ctrl-C during the first poll() may have left the metric behind, and the registry
            # rejects a duplicate.
            self._registry.remove_metric(full_name)
            sensor.add(full_name, statistic())
        return sensor

    def _name(self, name: str, group: str, meaning: str, tags: Mapping[str, str]) -> Any:
        return self._registry.metric_name(name, f"{self._prefix}-{group}", meaning, dict(tags))


def _tags(tp: TopicPartition) -> dict[str, str]:
    return {"topic": _tag(tp.topic), "partition": str(tp.partition)}


def _of_topic(sensor: str, topic: str) -> str:
    return f"{sensor} of {topic}"


def _tag(topic: str) -> str:
    """Replace dots as kafka-python and Java do, because a dot separates parts of a name.

    Topics cannot collide by this: brokers reject names that differ only in dots and underscores.
    """
    return topic.replace(".", "_")


def _ignore(value: float) -> None:
    """Record nothing: metrics are disabled."""
