"""What a task does: it reads one range of offsets to its end, by position.

The records may be fewer than the offsets, even none: control records of transactions, aborted
records and compaction leave gaps. So a range is done when the position has reached its end. What
retention took from it is told by the broker, which refuses the offset.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka.spark.client import consumer_options
from tandem_kafka.spark.cluster import DataLossError
from tandem_kafka.spark.columns import RowShape
from tandem_kafka.spark.consumers import cache
from tandem_kafka.spark.failures import sentence_first
from tandem_kafka.spark.options import SourceOptions
from tandem_kafka.spark.ranges import OffsetRange

__all__ = ["Reading"]

log = logging.getLogger(__name__)

#: Records of the first batch, before their size is known.
_FIRST_ROWS: Final = 1_000
_MOST_ROWS: Final = 100_000
#: After so long without a record the end of the log is looked up: it may have gone back.
_SUSPICIOUS_MS: Final = 5_000
#: The look gets the time that is left of pollTimeoutMs, and at least so much.
_LOOK_MS: Final = 1_000
_MEMORY: Final = 32 << 20
#: A task reads one partition, so one fetch is on its way at a time: it had better be worth it.
_FETCH: Final = 2 << 20


@dataclass(frozen=True)
class Reading:
    """How ranges of a query are read; travels to the workers."""

    kafka: Mapping[str, str]
    shape: RowShape
    batch_bytes: int
    poll_timeout_ms: int
    fail_on_data_loss: bool
    group_id_prefix: str | None

    @classmethod
    def of(cls, options: SourceOptions, shape: RowShape) -> Reading:
        """Take what workers need of a query's options."""
        return cls(
            kafka=dict(options.kafka),
            shape=shape,
            batch_bytes=options.batch_bytes,
            poll_timeout_ms=options.poll_timeout_ms,
            fail_on_data_loss=options.fail_on_data_loss,
            group_id_prefix=options.group_id_prefix,
        )

    def __repr__(self) -> str:
        return f"Reading({', '.join(self.shape.schema.names)})"

    def client_options(self) -> dict[str, Any]:
        """Return the options of a worker's consumer."""
        options = {
            "fetch_buffer_max_bytes": _MEMORY,
            "max_partition_fetch_bytes": _FETCH,
            **consumer_options(self.kafka),
        }
        if self.group_id_prefix is not None:
            options.setdefault("client_id", f"{self.group_id_prefix}-executor")
        return options | {
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
        }

    @sentence_first
    def read(self, wanted: OffsetRange) -> Iterator[Any]:
        """Yield the records of a range as record batches."""
        with cache.lend(self.client_options()) as consumer:
            yield from _Range(self, consumer, wanted).batches()


def _before(batch: Any, end: int) -> Any:
    """Return the records of a batch that are before an offset."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import; planning needs none

    return batch.slice(0, pc.sum(pc.less(batch.column("offset"), end)).as_py())


class _Range:
    def __init__(self, reading: Reading, consumer: KafkaConsumer, wanted: OffsetRange) -> None:
        self._reading = reading
        self._consumer = consumer
        self._wanted = wanted
        self._position = wanted.start
        self._rows = _FIRST_ROWS
        self._clock = MonotonicClock()

    def batches(self) -> Iterator[Any]:
        tp, end = self._wanted.tp, self._wanted.end
        convert = self._reading.shape.converter(tp).convert
        self._consumer.assign([tp])
        self._consumer.stop_at(tp, end)
        self._consumer.seek(tp, self._position)
        moved_ms = self._clock.now_ms()
        while self._position < end:
            batch = self._poll()
            position = self._consumer.position(tp)
            if position != self._position:
                self._position, moved_ms = position, self._clock.now_ms()
            else:
                self._stalled(self._clock.now_ms() - moved_ms)
            if position > end and batch.num_rows:
                # The last fetch brought more than was asked for.
                batch = _before(batch, end)
            if batch.num_rows:
                self._adapt(batch)
                yield convert(batch)

    def _poll(self) -> Any:
        wait_ms = min(_SUSPICIOUS_MS, self._reading.poll_timeout_ms)
        columns = self._reading.shape.wanted
        while True:
            try:
                return self._consumer.poll_arrow(wait_ms, self._rows, columns=columns)
            except OffsetOutOfRangeError:
                self._skip_what_is_gone()

    def _adapt(self, batch: Any) -> None:
        """Have the next batch about as large as it should be."""
        rows = batch.num_rows * self._reading.batch_bytes // max(1, batch.nbytes)
        self._rows = max(1, min(_MOST_ROWS, rows))

    # --- what is gone --------------------------------------------------------------------------

    def _skip_what_is_gone(self) -> None:
        tp = self._wanted.tp
        first = self._consumer.beginning_offsets([tp])[tp]
        last = self._consumer.end_offsets([tp])[tp]
        at = self._consumer.position(tp)
        self._lost(f"offset {at} is gone: there is [{first}, {last}) of {tp.topic}-{tp.partition}")
        # A log that ends before the position was made anew: nothing of this range is in it.
        self._consumer.seek(tp, first if at < first else self._wanted.end)

    def _stalled(self, since_ms: int) -> None:
        tp = self._wanted.tp
        if since_ms < min(_SUSPICIOUS_MS, self._reading.poll_timeout_ms):
            return
        left_ms = max(_LOOK_MS, self._reading.poll_timeout_ms - since_ms)
        try:
            last = self._consumer.end_offsets([tp], left_ms)[tp]
        except KafkaTimeoutError:
            # A broker that does not answer has not lost anything.
            last = self._wanted.end
        if last < self._wanted.end:
            self._lost(f"{tp.topic}-{tp.partition} ends at {last} now")
            self._position = self._wanted.end
        elif since_ms >= self._reading.poll_timeout_ms:
            raise KafkaTimeoutError(
                f"no record of {self._wanted} came within {self._reading.poll_timeout_ms} ms "
                f"(kafkaConsumer.pollTimeoutMs) behind offset {self._position}"
            )

    def _lost(self, what: str) -> None:
        message = f"{self._wanted} cannot be read whole: {what}"
        if self._reading.fail_on_data_loss:
            raise DataLossError(
                f"{message}. Retention or a deleted topic took it; to go on without, set "
                "failOnDataLoss to false"
            )
        log.warning("records may have been lost: %s", message)
