"""`ShareConsumer`: records one by one, with a lock, for as many consumers as there is work."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from tandem_kafka.config import Config
from tandem_kafka.consumer.arrow_form import ArrowForm
from tandem_kafka.consumer.health import Health
from tandem_kafka.consumer.parts import named_client
from tandem_kafka.errors import KafkaError
from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Threads, run
from tandem_kafka.share.handing import Given
from tandem_kafka.share.methods import ShareMethods, returning
from tandem_kafka.share.options import How, share_options
from tandem_kafka.share.record import ShareRecord, ShareRecords
from tandem_kafka.types import ArrowDecoder, KeyT, TopicPartition, ValueT

if TYPE_CHECKING:
    import pyarrow as pa


def batch_of(given: Sequence[Given]) -> dict[TopicPartition, ShareRecords[Any, Any]]:
    """Return what a poll() returns, by partition."""
    parts: dict[TopicPartition, list[Sequence[ShareRecord[Any, Any]]]] = {}
    for chunk, start, stop in given:
        parts.setdefault(chunk.run.partition.tp, []).append(chunk.made(start, stop))
    return {tp: ShareRecords(each) for tp, each in parts.items()}


def record_of(given: Given) -> ShareRecord[Any, Any]:
    """Return the first record."""
    chunk, start, _ = given
    return chunk.made_one(start)


class ShareConsumer(Generic[KeyT, ValueT]):
    """A member of a share group (KIP-932), which needs Kafka 4.2 with ``share.version=1``.

    Many consumers take records of the same partitions, in no order. A broker locks each record for
    one of them, for 30 seconds by default. A record that is not acknowledged until then is
    delivered again, up to 5 times.

    Only one thread at a time may poll or iterate. Any thread may acknowledge records and call the
    other methods.

    Args:
        *topics: Topics to subscribe to.
        acknowledgement: With "implicit", a record is accepted when the next one is asked for, or at
            the end of a ``with`` block without an exception. With "explicit", only by
            ``record.accept()``, ``release()`` or ``reject()``.
        renew: "off", or "auto": the network thread renews the locks of records that the application
            works on (KIP-1222).
        max_processing_ms: For how long "auto" renews the lock of a record, in milliseconds.
        **options: Options of ``KafkaConsumer``, also ``group_id``, but for those that a share group
            has for itself, such as ``auto_offset_reset``.

    Raises:
        KafkaConfigurationError: An option is unknown, has an invalid value, or has no meaning here.
        NoGroupError: There is no ``group_id``.
        InvalidArgumentError: One of the other arguments has an invalid value.
        KafkaTimeoutError: No bootstrap server responded within ``bootstrap_timeout_ms``.
        NetworkThreadError: The system cannot start another thread.

    Example::

        with ShareConsumer("jobs", group_id="resizers", bootstrap_servers="localhost:9092") as jobs:
            for record in jobs:
                resize(record.value)
    """

    _methods: ShareMethods
    #: What poll() and iteration return. A subclass sees it here, before it counts as handed out.
    _batch_of = staticmethod(batch_of)
    _record_of = staticmethod(record_of)

    def __init__(
        self,
        *topics: str,
        acknowledgement: Literal["implicit", "explicit"] = "implicit",
        renew: Literal["off", "auto"] = "off",
        max_processing_ms: float = 600_000,
        **options: Any,
    ) -> None:
        config, how = share_options(options, acknowledgement, renew, max_processing_ms)
        self._start(config, how, Runtime.threaded(), topics)

    def _start(
        self,
        config: Config,
        how: How,
        runtime: Runtime,
        topics: Sequence[str],
        transport: Any = None,
    ) -> None:
        self._config, _ = named_client(config)
        callers = Threads(runtime.clock, runtime.driver)
        self._methods = ShareMethods(self._config, runtime, callers, how, transport)
        run(self._methods.begin(topics))

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics in place of those before. Takes effect with the next poll().

        Raises:
            InvalidArgumentError: A name is not valid.
        """
        run(self._methods.subscribe(topics))

    def unsubscribe(self) -> None:
        """End the subscription, release records that were not handed out, and leave the group."""
        run(self._methods.unsubscribe())

    def subscription(self) -> set[str]:
        """Return the topics."""
        return self._methods.subscription()

    @property
    def acknowledgement(self) -> str:
        """``"implicit"`` or ``"explicit"``."""
        return "implicit" if self._methods.implicit else "explicit"

    @property
    def log_names(self) -> ClientNames:
        """The names of this consumer, for a logger of ``tandem_kafka.logs``."""
        return self._methods.core.client

    def renew_locks(self, max_processing_ms: float) -> None:
        """Renew the locks of records that the application works on, as ``renew="auto"`` does.

        Args:
            max_processing_ms: For how long the lock of a record is renewed, in milliseconds; 0 for
                not at all.
        """
        self._methods.renew_locks(max_processing_ms)

    @returning
    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, ShareRecords[KeyT, ValueT]]:
        """Return records as soon as there are any, or an empty dict after the timeout.

        With implicit acknowledgement, this accepts the records of the call before.

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds.
            max_records: Maximum number of records, ``max_poll_records`` by default.

        Raises:
            WakeupError: ``wakeup()`` was called.
            RecordDeserializationError: A record cannot be deserialized. It is released; the next
                call goes on behind it.
            CorruptRecordError: A batch is damaged. It is released, and rejected if it was delivered
                before; the next call goes on behind it.
            UnsupportedVersionError: The cluster has no share groups.
            KafkaError: The cluster denies access, or rejects the membership.
        """
        given = run(self._methods.poll(max(0, timeout_ms), max_records))
        batch = self._batch_of(given)
        # Invariant: this store directly precedes the return. What an interrupt keeps from the
        # application is not accepted by the next call.
        self._methods.handing.given = given
        return batch

    @returning
    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        binary_view: bool = False,
        key: ArrowDecoder | None = None,
        value: ArrowDecoder | None = None,
    ) -> pa.RecordBatch:
        """Return records as an Arrow record batch, which is empty after the timeout.

        Records are locked, accepted and handed out as in ``poll()``. Requires pyarrow
        (``pip install tandem-kafka[arrow]``).

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds.
            max_records: Maximum number of records; by default, all of one response. Fewer come if
                they reach ``fetch_buffer_max_bytes``.
            columns: Names of the columns to build; all by default. They are those of
                ``KafkaConsumer.poll_arrow()``, and delivery_count (int16).
            binary_view: Use the type binary_view for key and value, as there.
            key: Decodes keys, such as ``Text()``; see `tandem_kafka.arrow`.
            value: Decodes values, such as ``Json(schema)``.

        Raises:
            ImportError: pyarrow is not installed.
            IllegalStateError: The consumer has deserializers.
            InvalidArgumentError: A column does not exist, two have the same name, or a decoder
                has ``errors="drop"`` and the acknowledgement is explicit.
            ArgumentTypeError: ``key`` or ``value`` is no decoder.
            RecordDeserializationError: The next record cannot be decoded, and the decoder has
                ``errors="raise"``. The record stays locked, and is the first that the next call
                finds: ``poll(max_records=1)`` returns it, so that it can be rejected.
            KafkaError: As for ``poll()``.
        """
        form = ArrowForm(columns, binary_view, key, value)
        batch, given = run(self._methods.poll_arrow(timeout_ms, max_records, form))
        self._methods.handing.given = given  # as in poll()
        return batch

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
        self._methods.acknowledge(batch, how)

    def __iter__(self) -> Self:
        """Return this consumer."""
        return self

    @returning
    def __next__(self) -> ShareRecord[KeyT, ValueT]:
        """Return the next record; wait for it.

        Raises:
            StopIteration: The consumer was closed, or no record came in ``consumer_timeout_ms``.
            KafkaError: As for ``poll()``.
        """
        methods = self._methods
        given = methods.following() or run(methods.next())
        if given is None:
            raise StopIteration
        record = self._record_of(given)
        methods.handing.given = (given,)  # as in poll()
        return record

    def commit(self, timeout_ms: float | None = None) -> dict[TopicPartition, KafkaError | None]:
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
        return run(self._methods.commit(timeout_ms))

    def _tell_again(self, outcome: dict[TopicPartition, KafkaError | None]) -> None:
        """Let the next commit() also return an outcome that a subclass could not return."""
        self._methods.tell_again(outcome)

    def release_all(self) -> None:
        """Release all records without an acknowledgement, for an application that pauses.

        With implicit acknowledgement, these are those of the last call, which the next one would
        accept. Nothing is locked for this consumer until it asks for the next record.
        """
        run(self._methods.release_all())

    def wakeup(self) -> None:
        """End the current or the next poll() with ``WakeupError``; for any thread or signal."""
        self._methods.core.wakeup()

    def close(self, timeout_ms: float | None = None) -> None:
        """Send all acknowledgements, release all other records, and leave the group.

        With implicit acknowledgement, the records that were handed out last are accepted. Any
        thread may call this.

        Args:
            timeout_ms: Time limit in milliseconds, 30,000 by default.
        """
        run(self._methods.close(timeout_ms=timeout_ms, clean=True))

    def health(self) -> Health:
        """Return what the consumer does, and what is wrong; see ``KafkaConsumer.health()``.

        Any thread may call this, and it never waits. Its partitions have neither position nor lag,
        and ``commit_ms`` is the time since brokers stored an acknowledgement.
        """
        return self._methods.health()

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics, or None if ``metrics_enabled`` is False.

        Args:
            raw: If True, return kafka-python's metric objects by ``MetricName``. Otherwise return
                values by group and name, such as ``"consumer-share-fetch-manager-metrics"`` and
                ``"records-accepted-total"``.
        """
        return self._methods.metrics(raw=raw)

    def __enter__(self) -> Self:
        """Return this consumer; the end of the block closes it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the consumer; after an exception, release what was not done."""
        run(self._methods.close(timeout_ms=None, clean=exc_type is None))

    def __del__(self) -> None:
        """Warn that the consumer was never closed; stop its thread."""
        methods = getattr(self, "_methods", None)
        if methods is None or methods.core.closed or not methods.core.in_own_process:
            return
        warnings.warn(f"unclosed consumer {self!r}", ResourceWarning, source=self, stacklevel=2)
        methods.core.engine.loop.stop()

    def __repr__(self) -> str:
        """Show the client id and the group."""
        return f"<ShareConsumer {self._config.client_id!r}, group {self._config.group_id!r}>"
