"""The methods of both share consumers that wait for no broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tandem_kafka.consumer.arguments import check_wait
from tandem_kafka.consumer.concurrent_calls import any_thread
from tandem_kafka.consumer.methods.inquiries import Inquiries
from tandem_kafka.consumer.share.columns import acknowledge_rows
from tandem_kafka.consumer.share.handing import Given
from tandem_kafka.consumer.share.options import How
from tandem_kafka.consumer.share.parts import ShareParts
from tandem_kafka.consumer.share.record import ShareRecord, ShareRecords
from tandem_kafka.errors import InvalidArgumentError, KafkaError
from tandem_kafka.events.application import Acknowledge
from tandem_kafka.state.locks import AcknowledgeType
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class PlainShareMethods(Inquiries):
    """A part of ``ShareConsumer`` and of ``AsyncShareConsumer``.

    In ``health()``, partitions have neither position nor lag, and ``commit_ms`` is the time since
    brokers stored an acknowledgement.
    """

    _parts: ShareParts
    _how: How

    # What poll() and iteration return. A subclass sees it here, before it counts as handed out.

    @staticmethod
    def _batch_of(given: Sequence[Given]) -> dict[TopicPartition, ShareRecords[Any, Any]]:
        """Return what a poll() returns, by partition."""
        parts: dict[TopicPartition, list[Sequence[ShareRecord[Any, Any]]]] = {}
        for chunk, start, stop in given:
            parts.setdefault(chunk.run.partition.tp, []).append(chunk.made(start, stop))
        return {tp: ShareRecords(each) for tp, each in parts.items()}

    @staticmethod
    def _record_of(given: Given) -> ShareRecord[Any, Any]:
        """Return the first record."""
        chunk, start, _ = given
        return chunk.made_one(start)

    def subscription(self) -> set[str]:
        """Return the topics. Any thread may call this, even after close()."""
        self._core.check_readable()
        return set(self._core.engine.subscription.topics)

    @property
    def acknowledgement(self) -> str:
        """``"implicit"`` or ``"explicit"``."""
        return "implicit" if self._how.implicit else "explicit"

    @any_thread
    def renew_locks(self, max_processing_ms: float) -> None:
        """Renew the locks of records that the application works on, as ``renew="auto"`` does.

        Args:
            max_processing_ms: For how long the lock of a record is renewed, in milliseconds; 0 for
                not at all.
        """
        check_wait("max_processing_ms", max_processing_ms)
        self._parts.records.renew_ms = max_processing_ms
        self._core.engine.queue.add(Acknowledge())  # the network thread looks when it is due

    def _lend(self, borrower: object) -> None:
        """Note which run of workers has what is handed out from now on; None if it ends.

        What it has not released by then, the next call that asks for records releases.
        """
        self._parts.handing.borrower = borrower

    @any_thread
    def acknowledge(
        self, batch: pa.RecordBatch | pa.Table, how: Literal["accept", "release", "reject", "renew"]
    ) -> None:
        """Acknowledge each row of a record batch, as the methods of a record do.

        Any thread may call this, also with a part of a batch, or rows of several in a table.

        Args:
            batch: A record batch or table with the columns topic, partition and offset. With
                delivery_count, one of an earlier delivery acknowledges nothing.
            how: ``"accept"``, ``"release"``, ``"reject"`` or ``"renew"``.

        Raises:
            ArgumentTypeError: ``batch`` is neither.
            InvalidArgumentError: A column is missing or has another type, or ``how`` is invalid.
            RecordLockLostError: The locks of some records have ended, so they are delivered again.
                All others are acknowledged.
            IllegalStateError: Some records have been acknowledged before. All others are
                acknowledged.
        """
        known = ("accept", "release", "reject", "renew")
        if how not in known:
            msg = f"how must be one of {', '.join(known)}, got {how!r}"
            raise InvalidArgumentError(msg)
        acknowledge_rows(self._parts.records, batch, AcknowledgeType[how.upper()])

    def _tell_again(self, outcome: dict[TopicPartition, KafkaError | None]) -> None:
        """Let the next commit() also return an outcome that a subclass could not return."""
        self._parts.commits.tell_again(outcome)
