"""How far streams are behind their topics, for logs and metrics.

Spark lets a Python source report no metrics of its own (4.3). What the JVM connector calls
`minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` is computed here on
the driver from the offsets in a query's progress, which are there from Spark 4.2 on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.offsets import Offsets, from_json
from tandem_kafka.types import TopicPartition

__all__ = ["LagListener", "StreamLag", "opentelemetry_lag", "prometheus_lag"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamLag:
    """How far one query was behind when it planned a micro-batch.

    Attributes:
        query: The query's name, or its id if it has none.
        query_id: Its id, which stays the same when it is started again.
        batch: The number of the micro-batch.
        batch_ms: Milliseconds that the micro-batch took.
        rows: Rows that it read.
        behind: For each partition, how many offsets there were behind the end of the micro-batch.
    """

    query: str
    query_id: str
    batch: int
    batch_ms: int
    rows: int
    behind: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def minimum(self) -> int:
        """The offsets that the partition with the fewest is behind."""
        return min(self.behind.values(), default=0)

    @property
    def maximum(self) -> int:
        """The offsets that the partition with the most is behind."""
        return max(self.behind.values(), default=0)

    @property
    def average(self) -> float:
        """The mean of all partitions."""
        return self.total / max(1, len(self.behind))

    @property
    def total(self) -> int:
        """The offsets that all partitions together are behind."""
        return sum(self.behind.values())

    @classmethod
    def of(cls, progress: Any) -> StreamLag:
        """Take what a `StreamingQueryProgress` says.

        Sources that tell no latest offset, or offsets of another form than Kafka's, are left out.
        """
        behind: dict[TopicPartition, int] = {}
        for source in progress.sources:
            latest, end = _offsets(source.latestOffset), _offsets(source.endOffset)
            for tp in latest.keys() & end.keys():
                behind[tp] = behind.get(tp, 0) + max(0, latest[tp] - end[tp])
        return cls(
            query=progress.name or str(progress.id),
            query_id=str(progress.id),
            batch=progress.batchId,
            batch_ms=int(progress.batchDuration),
            rows=progress.numInputRows,
            behind=dict(sorted(behind.items())),
        )

    def __str__(self) -> str:
        most = max(self.behind, key=self.behind.__getitem__, default=None)
        where = f", most in {most.topic}-{most.partition}" if most and self.total else ""
        return (
            f"stream {self.query}, batch {self.batch}: {self.rows} rows in {self.batch_ms} ms; "
            f"offsets behind latest: min {self.minimum}, max {self.maximum}, "
            f"avg {self.average:.1f}{where}"
        )


def _offsets(text: str | None) -> Offsets:
    try:
        return from_json(json.loads(text)) if text else {}
    except (ValueError, InvalidArgumentError):
        return {}  # of a source that is not Kafka's


class LagListener(StreamingQueryListener):
    """Logs the lag of a session's streams, and gives it to whom it is told to.

    Add it to a session: `spark.streams.addListener(LagListener())`. It runs on the driver.

    Args:
        targets: Called with the lag after each micro-batch, in the order of the micro-batches.
            Spark logs what they raise, and goes on.
    """

    def __init__(self, *targets: Callable[[StreamLag], None]) -> None:
        self._targets = targets
        self._untold: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing: there is no batch yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Log the lag, and pass it on."""
        lag = StreamLag.of(event.progress)
        if not lag.behind:
            self._say_that_it_is_unknown(lag)
            return
        log.info("%s", lag)
        for target in self._targets:
            target(lag)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing: what the last batch left is unchanged."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing: the lag of a query that has ended is the last that was told."""

    def _say_that_it_is_unknown(self, lag: StreamLag) -> None:
        if lag.query_id not in self._untold:
            self._untold.add(lag.query_id)
            log.info(
                "stream %s: the lag of batch %s is unknown, as no source says how far its topics "
                "reach: a batch that is repeated does not, nor a Python source before Spark 4.2",
                lag.query,
                lag.batch,
            )


def prometheus_lag(registry: Any = None) -> Callable[[StreamLag], None]:
    """Return a target for `LagListener` that keeps the lag in Prometheus gauges.

    `tandem_kafka_stream_offsets_behind_latest` has a series for each query, topic and partition;
    `tandem_kafka_stream_batch_seconds` and `tandem_kafka_stream_batch_rows` one for each query.

    Args:
        registry: A `prometheus_client.CollectorRegistry`; the library's default if None.

    Raises:
        ModuleNotFoundError: `prometheus-client` is not installed.
    """
    from prometheus_client import REGISTRY, Gauge  # noqa: PLC0415 - not of every job

    where = REGISTRY if registry is None else registry
    behind = Gauge(
        "tandem_kafka_stream_offsets_behind_latest",
        "Offsets between the end of the last micro-batch and the end of the partition",
        ("query", "topic", "partition"),
        registry=where,
    )
    seconds, rows = (
        Gauge(f"tandem_kafka_stream_batch_{name}", text, ("query",), registry=where)
        for name, text in (
            ("seconds", "Duration of the last micro-batch"),
            ("rows", "Rows that the last micro-batch read"),
        )
    )
    shown: dict[str, set[TopicPartition]] = {}

    def keep(lag: StreamLag) -> None:
        for tp in shown.get(lag.query, set()) - lag.behind.keys():
            behind.remove(lag.query, tp.topic, str(tp.partition))
        shown[lag.query] = set(lag.behind)
        for tp, offsets in lag.behind.items():
            behind.labels(lag.query, tp.topic, str(tp.partition)).set(offsets)
        seconds.labels(lag.query).set(lag.batch_ms / 1_000)
        rows.labels(lag.query).set(lag.rows)

    return keep


def opentelemetry_lag(meter: Any) -> Callable[[StreamLag], None]:
    """Return a target for `LagListener` that an OpenTelemetry meter observes.

    The instrument `tandem_kafka.stream.offsets_behind_latest` has the attributes `query`,
    `messaging.destination.name` and `messaging.destination.partition.id`.

    Args:
        meter: An `opentelemetry.metrics.Meter`.
    """
    from opentelemetry.metrics import Observation  # noqa: PLC0415

    latest: dict[str, StreamLag] = {}

    def observe(_: Any) -> Iterator[Any]:
        for lag in tuple(latest.values()):
            for tp, offsets in lag.behind.items():
                yield Observation(
                    offsets,
                    {
                        "query": lag.query,
                        "messaging.destination.name": tp.topic,
                        "messaging.destination.partition.id": str(tp.partition),
                    },
                )

    meter.create_observable_gauge(
        "tandem_kafka.stream.offsets_behind_latest", [observe], unit="{offset}"
    )

    def keep(lag: StreamLag) -> None:
        latest[lag.query] = lag

    return keep
