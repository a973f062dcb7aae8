"""The methods of both share consumers, written once: those that wait for no broker, and others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tandem_kafka.consumer.arguments import check_names, check_wait
from tandem_kafka.consumer.concurrent_calls import (
    WithCore,
    any_thread,
    part_of_consumers,
    suspends_poll,
)
from tandem_kafka.consumer.methods.cluster_methods import ClusterMethods
from tandem_kafka.consumer.methods.inquiries import Inquiries
from tandem_kafka.consumer.share.columns import acknowledge_rows
from tandem_kafka.consumer.share.handing import Given
from tandem_kafka.consumer.share.options import How
from tandem_kafka.consumer.share.parts import ShareParts
from tandem_kafka.consumer.share.record import ShareRecord, ShareRecords
from tandem_kafka.consumer.share.unpacking import Chunk
from tandem_kafka.errors import InvalidArgumentError, KafkaError
from tandem_kafka.events.application import Acknowledge, Subscribe
from tandem_kafka.state.locks import AcknowledgeType
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


@part_of_consumers
class PlainShareMethods(Inquiries):
    """The methods that wait for no broker: a part of both consumers.

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
    def _iterated(chunk: Chunk, start: int, stop: int) -> Sequence[ShareRecord[Any, Any]]:
        """Return what iteration gives one by one: records of a chunk, or the first of them."""
        return chunk.made(start, stop)

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
        self._core.engine.polls.request_attention()

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


@part_of_consumers
class AwaitableShareMethods(WithCore):
    """The methods that wait for a broker, as coroutines: a part of ``AsyncShareConsumer``.

    ``ShareConsumer`` has the same methods, which block.

    Invariant: a method uses none of its own class through ``self``; see `AwaitableMethods`.
    """

    _parts: ShareParts

    async def _begin(self, parts: ShareParts, topics: Sequence[str]) -> None:
        """Wait for the first contact with the cluster, and subscribe; see `Parts.begin`."""
        self._parts = parts
        self._core = parts.core
        subscribe = partial(AwaitableShareMethods.subscribe, self, topics) if topics else None
        await parts.begin(subscribe, partial(parts.closing.close, timeout_ms=0, clean=False))

    @any_thread
    async def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics in place of those before. Takes effect with the next poll().

        Raises:
            InvalidArgumentError: A name is not valid.
        """
        deadline_ms = self._core.deadline_ms(None)
        await self._core.ask(Subscribe(deadline_ms=deadline_ms, topics=check_names(topics)))

    @any_thread
    async def unsubscribe(self) -> None:
        """End the subscription, release records that were not handed out, and leave the group."""
        await self._parts.closing.unsubscribe()

    async def commit(
        self, timeout_ms: float | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements made so far, and wait for the brokers' answers.

        With implicit acknowledgement, records are accepted by the next poll(), not by this.

        Args:
            timeout_ms: Time limit in milliseconds, ``default_api_timeout_ms`` by default.

        Returns:
            Each partition with acknowledgements since the last call: None if the brokers have
            stored all of them, or the error of those that failed, whose records are delivered
            again. ``renew()`` counts too; automatic renewals do not.

        Raises:
            KafkaTimeoutError: Not all brokers answered in time.
            WakeupError: ``wakeup()`` was called.
        """
        return await self._parts.commits.commit(timeout_ms)

    @suspends_poll
    async def release_all(self) -> None:
        """Release all records without an acknowledgement, for an application that pauses.

        With implicit acknowledgement, these are those of the last call, which the next one would
        accept. Nothing is locked for this consumer until it asks for the next record.
        """
        self._parts.handing.release_all()

    client_instance_id = ClusterMethods.client_instance_id
