"""`ShareConsumer`: records one by one, with a lock, for as many consumers as there is work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from tandem_kafka.config import Config, sealed
from tandem_kafka.config.described import described
from tandem_kafka.consumer.arguments import check_names
from tandem_kafka.consumer.closing import close_on_any_thread, stop_unclosed
from tandem_kafka.consumer.methods.blocking_methods import blocking
from tandem_kafka.consumer.parts import named_client
from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.reading.iteration import Loop
from tandem_kafka.consumer.reading.poller import returning
from tandem_kafka.consumer.share.methods import AwaitableShareMethods, PlainShareMethods
from tandem_kafka.consumer.share.options import WITHOUT_MEANING, How, share_options
from tandem_kafka.consumer.share.parts import ShareParts
from tandem_kafka.consumer.share.record import ShareRecord, ShareRecords
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Threads, run
from tandem_kafka.types import ArrowDecoder, KeyT, TopicPartition, ValueT

if TYPE_CHECKING:
    import pyarrow as pa


@described(WITHOUT_MEANING)
class ShareConsumer(Loop, PlainShareMethods, Generic[KeyT, ValueT]):
    """A member of a share group (KIP-932), which needs Kafka 4.2 with ``share.version=1``.

    Many consumers take records of the same partitions, in no order. A broker locks each record for
    one of them, for 30 seconds by default. A record that is not acknowledged until then is
    delivered again, up to 5 times.

    Only one thread at a time may poll or iterate. Any thread may acknowledge records and call the
    other methods. Iteration waits for records. It ends once the consumer is closed, or after
    ``consumer_timeout_ms`` without a record, and raises the errors of ``poll()``.

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

    def __init__(
        self,
        *topics: str,
        acknowledgement: Literal["implicit", "explicit"] = "implicit",
        renew: Literal["off", "auto"] = "off",
        max_processing_ms: float = 600_000,
        **options: Any,
    ) -> None:
        options = sealed(options)
        config, how = share_options(options, acknowledgement, renew, max_processing_ms)
        self._start(config, how, Runtime.threaded(), topics)

    if TYPE_CHECKING:

        def __iter__(self) -> Self: ...

        def __next__(self) -> ShareRecord[KeyT, ValueT]: ...

    def _start(
        self,
        config: Config,
        how: How,
        runtime: Runtime,
        topics: Sequence[str],
        transport: Any = None,
    ) -> None:
        check_names(topics)  # before any wait
        self._config, self._written = named_client(config)
        self._how = how
        callers = Threads(runtime.clock, runtime.driver)
        self._begin(ShareParts(self._config, runtime, callers, how, transport), topics)

    subscribe = blocking(AwaitableShareMethods.subscribe)
    unsubscribe = blocking(AwaitableShareMethods.unsubscribe)
    commit = blocking(AwaitableShareMethods.commit)
    release_all = blocking(AwaitableShareMethods.release_all)
    client_instance_id = blocking(AwaitableShareMethods.client_instance_id)
    _begin = blocking(AwaitableShareMethods._begin)  # noqa: SLF001 - the same facade

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
                call continues after it.
            CorruptRecordError: A batch is damaged. It is released, and rejected if it was delivered
                before; the next call continues after it.
            UnsupportedVersionError: The cluster has no share groups.
            KafkaError: The cluster denies access, or rejects the membership.
        """
        given = run(self._parts.reading.poll(timeout_ms, max_records))
        batch = self._batch_of(given)
        # Invariant: this store directly precedes the return. What an interrupt keeps from the
        # application is not accepted by the next call.
        self._parts.handing.given = given
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
            key: Decodes keys, such as ``Text()``; see `tandem_kafka.tables`.
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
        batch, given = run(self._parts.reading.poll_arrow(timeout_ms, max_records, form))
        self._parts.handing.given = given  # as in poll()
        return batch

    @returning
    def _find_feed(self) -> None:
        """Find the feed with the next record for the `for` loop; see `Loop`."""
        reading, follow = self._parts.reading, self._follow
        if not (reading.follow_ready(follow) or run(reading.find_feed(follow, self._iterated))):
            raise StopIteration

    def close(self, timeout_ms: float | None = None) -> None:
        """Send all acknowledgements, release all other records, and leave the group.

        With implicit acknowledgement, the records that were handed out last are accepted. Any
        thread may call this.

        Args:
            timeout_ms: Time limit in milliseconds, never more than ``request_timeout_ms``. The
                default is 30,000, or 5,000 if the coordinator is already unreachable.
        """
        self._close(timeout_ms, clean=True)

    def _close(self, timeout_ms: float | None, *, clean: bool) -> None:
        close = partial(self._parts.closing.close, timeout_ms=timeout_ms, clean=clean)
        close_on_any_thread(self._core, close)

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
        self._close(None, clean=exc_type is None)

    def __del__(self) -> None:
        """Warn that the consumer was never closed; stop its thread."""
        if stop_unclosed(self, getattr(self, "_core", None)):
            self._parts.handing.end_feed()  # a cycle that the garbage collector does not see
