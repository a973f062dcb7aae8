"""Writes records to another topic, and waits until they are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tandem_kafka.runtime import Clock
from tandem_kafka.types import UNKNOWN_EPOCH, ConsumerRecord, OffsetAndMetadata, TopicPartition
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.records.filters import Filters

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer


Record: TypeAlias = ConsumerRecord[Any, Any]

#: Records between two waits for acknowledgements.
_AT_ONCE: Final = 1_000
_TIMEOUT_S: Final = 60.0


class Pace:
    """Limits the records per second.

    Args:
        clock: Measures.
        sleep_ms: Waits.
        rate: The limit; None for none.
    """

    def __init__(self, clock: Clock, sleep_ms: Callable[[float], None], rate: int | None) -> None:
        self._clock = clock
        self._sleep_ms = sleep_ms
        self._rate = rate
        self._due_ms = float(clock.now_ms())

    @property
    def at_once(self) -> int:
        """How many records may be written without a wait: those of a tenth of a second."""
        return _AT_ONCE if self._rate is None else max(1, min(_AT_ONCE, self._rate // 10))

    def wait(self, count: int) -> None:
        """Wait until the rate limit allows `count` more records."""
        if self._rate is None:
            return
        now_ms = self._clock.now_ms()
        # Time without records gives no right to a burst.
        self._due_ms = max(self._due_ms, now_ms)
        if self._due_ms > now_ms:
            self._sleep_ms(self._due_ms - now_ms)
        self._due_ms += 1000 * count / self._rate


class Copier:
    """Copies records in order.

    Args:
        clients: The consumer, and kafka-python's producer.
        destination: The topic to write to.
        filters: Records that are left out.
        pace: The limit.
        partitions: Whether each record keeps its partition.

    Attributes:
        copied: The number of acknowledged records.
    """

    def __init__(
        self,
        clients: tuple[KafkaConsumer, Any],
        destination: str,
        filters: Filters,
        pace: Pace,
        *,
        partitions: bool,
    ) -> None:
        self.consumer, self._producer = clients
        self.copied = 0
        self._destination = destination
        self._filters = filters
        self._pace = pace
        self._partitions = partitions

    def copy(self, records: Iterable[Record], *, commit: bool) -> None:
        """Write records, wait for their acknowledgements, and commit behind them.

        Raises:
            CommandError: A record was not acknowledged; nothing behind it is committed.
        """
        pending = list(records)
        step = self._pace.at_once
        for begin in range(0, len(pending), step):
            part = pending[begin : begin + step]
            self._pace.wait(len(part))
            self._write(part)
            if commit:
                self.commit({TopicPartition(r.topic, r.partition): r.offset + 1 for r in part})

    def _write(self, records: list[Record]) -> None:
        sent: list[tuple[Record, Any]] = []
        failed: tuple[Record, Exception] | None = None
        for record in records:
            if self._filters.accept(record.key, record.value, record.headers):
                try:
                    sent.append((record, self._send(record)))
                except Exception as error:  # noqa: BLE001 - raised below, behind those before it
                    failed = record, error
                    break
        for record, future in sent:
            try:
                future.get(timeout=_TIMEOUT_S)
            except Exception as error:
                raise self._not_copied(record, error) from error
            self.copied += 1
        if failed is not None:
            raise self._not_copied(*failed) from failed[1]

    def _not_copied(self, record: Record, error: Exception) -> CommandError:
        why = " ".join(str(error).split())
        if record.key is None and record.value is None:
            why = "kafka-python's producer writes no record without a key and a value"
        elif any(content is None for _, content in record.headers):
            why = "kafka-python's producer writes no header without a value"
        return CommandError(
            f"{record.topic} {record.partition}:{record.offset} cannot be copied: {why}; "
            f"{self.copied:,} records before it were"
        )

    def _send(self, record: Record) -> Any:
        return self._producer.send(
            self._destination,
            value=record.value,
            key=record.key,
            headers=record.headers,
            partition=record.partition if self._partitions else None,
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        )

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for the consumer's group.

        Raises:
            KafkaError: The coordinator rejects them, for example because the group has members.
        """
        self.consumer.commit(
            {tp: OffsetAndMetadata(at, "", UNKNOWN_EPOCH) for tp, at in offsets.items()}
        )
