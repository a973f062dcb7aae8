"""The lag of streams, for logs and metrics.

In Spark 4.3, a Python source cannot report metrics. This module computes the JVM
connector's `minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` on the
driver, from the offsets in a query's progress. Spark 4.2 and newer provide them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyspark_tandem_kafka.offsets import PartitionOffsets, StreamOffset
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.logs import client_logger
from tandem_kafka.types import TopicPartition

__all__ = ["LagListener", "StreamLag", "opentelemetry_lag", "prometheus_lag"]

log = client_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamLag:
    """The lag of one query when it planned a micro-batch.

    Attributes:
        query: The query's name, or its id if it has none.
        query_id: The query's id, which stays the same after a restart.
        batch: The number of the micro-batch.
        batch_ms: The duration of the micro-batch in ms.
        rows: The number of rows that the micro-batch read.
        behind: For each partition, the offsets between the end of the micro-batch and the end of
            the partition.
        read: For each partition, the number of offsets that the micro-batch read.
    """

    query: str
    query_id: str
    batch: int
    batch_ms: int
    rows: int
    behind: Mapping[TopicPartition, int] = field(default_factory=dict)
    read: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def minimum(self) -> int:
        """The lag of the partition with the least lag."""
        return min(self.behind.values(), default=0)

    @property
    def maximum(self) -> int:
        """The lag of the partition with the most lag."""
        return max(self.behind.values(), default=0)

    @property
    def average(self) -> float:
        """The mean lag of all partitions."""
        return self.total / max(1, len(self.behind))

    @property
    def total(self) -> int:
        """The lag of all partitions together."""
        return sum(self.behind.values())

    @classmethod
    def of(cls, progress: Any) -> StreamLag:
        """Compute the lag from a `StreamingQueryProgress`.

        Sources without a latest offset, or with offsets in a different form, are skipped.
        """
        behind: Counter[TopicPartition] = Counter()
        read: Counter[TopicPartition] = Counter()
        for source in progress.sources:
            latest, end = _logged(source.latestOffset).ends, _logged(source.endOffset)
            start = _begun(_logged(source.startOffset), end)
            for tp in latest.keys() & end.ends.keys():
                behind[tp] += max(0, latest[tp] - end.ends[tp])
            for tp in start.keys() & end.ends.keys():
                read[tp] += max(0, end.ends[tp] - start[tp])
        return cls(
            query=progress.name or str(progress.id),
            query_id=str(progress.id),
            batch=progress.batchId,
            batch_ms=int(progress.batchDuration),
            rows=progress.numInputRows,
            behind=dict(sorted(behind.items())),
            read=dict(sorted(read.items())),
        )

    def __str__(self) -> str:
        most = max(self.behind, key=self.behind.__getitem__, default=None)
        where = f", most in {most.topic}-{most.partition}" if most and self.total else ""
        return (
            f"stream {self.query}, batch {self.batch}: {self.rows} rows in {self.batch_ms} ms; "
            f"offsets behind latest: min {self.minimum}, max {self.maximum}, "
            f"avg {self.average:.1f}{where}"
        )


def _begun(start: StreamOffset, end: StreamOffset) -> PartitionOffsets:
    """Return where a micro-batch began; new partitions, also of recreated topics, begin at 0."""
    if end.beginning is not None:
        return end.beginning
    if not start.ends:
        return {}
    return dict.fromkeys(end.ends, 0) | start.without_recreated(end.topic_ids)


def _logged(text: str | None) -> StreamOffset:
    try:
        return StreamOffset.from_json(json.loads(text)) if text else StreamOffset()
    except (ValueError, InvalidArgumentError):
        return StreamOffset()  # the source is not Kafka


class LagListener(StreamingQueryListener):
    """Logs the lag of a session's streams, and passes it to the given functions.

    Add it to a session: `spark.streams.addListener(LagListener())`. It runs on the driver.

    Args:
        targets: Functions to call with the lag after each micro-batch, in order. Spark logs
            their exceptions and continues.
    """

    def __init__(self, *targets: Callable[[StreamLag], None]) -> None:
        self._targets = targets
        self._reported_unknown: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing: there is no batch yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Log the lag, and call the targets."""
        lag = StreamLag.of(event.progress)
        if not lag.behind:
            self._log_unknown_lag(lag)
            return
        log.info("%s", lag)
        for target in self._targets:
            target(lag)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: there is no new batch."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the last reported lag remains valid."""

    def _log_unknown_lag(self, lag: StreamLag) -> None:
        if lag.query_id not in self._reported_unknown:
            self._reported_unknown.add(lag.query_id)
            log.info(
                "stream %s: the lag of batch %s is unknown, because no source reported the end of "
                "its topics; repeated batches and Python sources before Spark 4.2 do not",
                lag.query,
                lag.batch,
            )


def prometheus_lag(registry: Any = None) -> Callable[[StreamLag], None]:
    """Return a target for `LagListener` that sets Prometheus gauges.

    `tandem_kafka_stream_offsets_behind_latest` and `tandem_kafka_stream_batch_offsets` have a
    series for each query, topic and partition. `tandem_kafka_stream_batch_seconds` and
    `tandem_kafka_stream_batch_rows` have one for each query.

    Args:
        registry: A `prometheus_client.CollectorRegistry`; None selects the library's default.

    Raises:
        ModuleNotFoundError: `prometheus-client` is not installed.
    """
    from prometheus_client import REGISTRY, Gauge  # noqa: PLC0415 - optional

    where = REGISTRY if registry is None else registry
    behind, read = (
        Gauge(f"tandem_kafka_stream_{name}", text, ("query", "topic", "partition"), registry=where)
        for name, text in (
            (
                "offsets_behind_latest",
                "Offsets between the end of the last micro-batch and the end of the partition",
            ),
            ("batch_offsets", "Offsets of the partition that the last micro-batch read"),
        )
    )
    seconds, rows = (
        Gauge(f"tandem_kafka_stream_batch_{name}", text, ("query",), registry=where)
        for name, text in (
            ("seconds", "Duration of the last micro-batch"),
            ("rows", "Rows that the last micro-batch read"),
        )
    )
    shown: dict[tuple[str, Any], set[TopicPartition]] = {}

    def keep(lag: StreamLag) -> None:
        for gauge, values in ((behind, lag.behind), (read, lag.read)):
            for tp in shown.get((lag.query, gauge), set()) - values.keys():
                gauge.remove(lag.query, tp.topic, str(tp.partition))
            shown[lag.query, gauge] = set(values)
            for tp, offsets in values.items():
                gauge.labels(lag.query, tp.topic, str(tp.partition)).set(offsets)
        seconds.labels(lag.query).set(lag.batch_ms / 1_000)
        rows.labels(lag.query).set(lag.rows)

    return keep


def opentelemetry_lag(meter: Any) -> Callable[[StreamLag], None]:
    """Return a target for `LagListener` that feeds an OpenTelemetry meter.

    The instruments `tandem_kafka.stream.offsets_behind_latest` and
    `tandem_kafka.stream.batch_offsets` have the attributes `query`, `messaging.destination.name`
    and `messaging.destination.partition.id`.

    Args:
        meter: An `opentelemetry.metrics.Meter`.
    """
    from opentelemetry.metrics import Observation  # noqa: PLC0415

    latest: dict[str, StreamLag] = {}

    def observe(kind: str) -> Iterator[Any]:
        for lag in tuple(latest.values()):
            found = lag.read if kind == "batch_offsets" else lag.behind
            for tp, offsets in found.items():
                yield Observation(
                    offsets,
                    {
                        "query": lag.query,
                        "messaging.destination.name": tp.topic,
                        "messaging.destination.partition.id": str(tp.partition),
                    },
                )

    for kind in ("offsets_behind_latest", "batch_offsets"):
        meter.create_observable_gauge(
            f"tandem_kafka.stream.{kind}", [lambda _, kind=kind: observe(kind)], unit="{offset}"
        )

    def keep(lag: StreamLag) -> None:
        latest[lag.query] = lag

    return keep
