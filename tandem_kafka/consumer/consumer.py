"""`KafkaConsumer`, the public API: most methods send an event and wait for its result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, overload

from tandem_kafka.config import Config, default_config, sealed
from tandem_kafka.config.described import described
from tandem_kafka.consumer.arguments import check_names
from tandem_kafka.consumer.closing import close_on_any_thread, stop_unclosed
from tandem_kafka.consumer.core import guarded
from tandem_kafka.consumer.methods.blocking_methods import BlockingMethods
from tandem_kafka.consumer.methods.kafka_python_attributes import KafkaPythonAttributes
from tandem_kafka.consumer.methods.plain_methods import PlainMethods
from tandem_kafka.consumer.parts import ConsumerParts, named_client
from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.reading.iteration import Loop
from tandem_kafka.consumer.reading.poller import returning
from tandem_kafka.consumer.reading.reading import Reading
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Threads, run
from tandem_kafka.types import ArrowDecoder, ConsumerRecord, KeyT, ValueT

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from tandem_kafka.config import ConsumerOptions, PlainOptions
    from tandem_kafka.config.typed import Deserializes


class _Defaults:
    """Determines the default values when they are first read: that takes kafka-python's."""

    def __get__(self, _: object, owner: type) -> dict[str, Any]:
        KafkaConsumer.DEFAULT_CONFIG = found = default_config()
        return found


@described()
class KafkaConsumer(
    PlainMethods,
    BlockingMethods,
    KafkaPythonAttributes,
    Loop,
    Generic[KeyT, ValueT],
):
    """Reads records from a Kafka cluster.

    Each consumer has a network thread, which does all input and output. Deserializers, callbacks
    and listeners run on the application's threads. Only one thread at a time may poll or iterate;
    any thread may call the other methods meanwhile. ``timeout_ms=None`` means
    ``default_api_timeout_ms``, unless the method's documentation says otherwise.

    Args:
        *topics: Topics to subscribe to.
        **options: See ``ConsumerOptions``. Option names are those of kafka-python, or those of the
            Java client with underscores.

    Raises:
        KafkaConfigurationError: An option is unknown or has an invalid value.
        InvalidGroupIdError: ``group_id`` is blank.
        KafkaTimeoutError: No bootstrap server responded within ``bootstrap_timeout_ms``. The
            constructor does not wait if this is 0 or if ``api_version`` is given.
        NetworkThreadError: The system cannot start another thread.
        KafkaError: The cluster rejected the connection, for example because authentication
            failed.
    """

    _parts: ConsumerParts
    _reading: Reading

    #: All options with their default values.
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = _Defaults()  # type: ignore[assignment]

    # The types of keys and values are those that the deserializers return.
    @overload
    def __init__(
        self: KafkaConsumer[bytes | None, bytes | None],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: None = None,
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: KafkaConsumer[bytes | None, ValueT],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: Deserializes[ValueT],
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: KafkaConsumer[KeyT, bytes | None],
        *topics: str,
        key_deserializer: Deserializes[KeyT],
        value_deserializer: None = None,
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: KafkaConsumer[KeyT, ValueT],
        *topics: str,
        key_deserializer: Deserializes[KeyT],
        value_deserializer: Deserializes[ValueT],
        **options: Unpack[PlainOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: KafkaConsumer[Any, Any], *topics: str, **options: Unpack[ConsumerOptions]
    ) -> None: ...

    def __init__(self, *topics: str, **options: Any) -> None:
        options = sealed(options)
        self._start(Config.from_options(options), Runtime.threaded(), topics)

    def _start(
        self, config: Config, runtime: Runtime, topics: Sequence[str], transport: Any = None
    ) -> None:
        check_names(topics)  # before any wait
        self._config, self._written = named_client(config)
        callers = Threads(runtime.clock, runtime.driver)
        self._begin(ConsumerParts(self._config, runtime, callers, transport), topics)

    if TYPE_CHECKING:

        def __iter__(self) -> Self: ...

        def __next__(self) -> ConsumerRecord[KeyT, ValueT]: ...

    # --- reading -------------------------------------------------------------------------------

    @returning
    @guarded
    def poll(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
    ) -> ConsumerRecords[KeyT, ValueT]:
        """Return records as soon as any are available, or an empty result after the timeout.

        This method also runs rebalance listeners and commit callbacks.

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds. With 0, return
                only records that have already been fetched.
            max_records: Maximum number of records, ``max_poll_records`` by default. The batch is
                also limited to ``fetch_buffer_max_bytes``, unless its first record is larger.
            update_offsets: If False, positions do not move. For compatibility with kafka-python.

        Returns:
            Records by partition, in offset order. Positions move when this method returns. If an
            interrupt (Ctrl-C) ends it before, the next call returns the same records.

        Raises:
            ConsumerClosedError: The consumer has been closed. If another thread closes the
                consumer during the call, the call returns without this error.
            ConcurrentModificationError: Another thread is polling or iterating.
            IllegalStateError: This thread is inside another poll(), assign() or unsubscribe(),
                because a deserializer or a signal handler makes this call. A rebalance listener
                may call poll().
            WakeupError: ``wakeup()`` was called.
            NoOffsetForPartitionError, OffsetOutOfRangeError: A partition has no valid position
                and ``auto_offset_reset`` is "none". Raised on every call until a seek.
            RecordDeserializationError, CorruptRecordError: The next record cannot be read.
                Raised on every call until a seek past the record.
            TopicAuthorizationFailedError, GroupAuthorizationFailedError, InvalidTopicError: The
                cluster denies access to a topic or group, or rejects the name of a topic.
            RebalanceCallbackError: A rebalance listener raised; the cause is its exception.
        """
        core = self._core  # noqa: F841 - see `guarded`
        batch, publication = self._reading.poll_now(timeout_ms, max_records)
        # Invariant: this single store moves all positions, and directly precedes the return. An
        # interrupt in between would lose the records.
        publication.done = update_offsets
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

        Positions, commits, pauses and rebalances work as in ``poll()``. Requires pyarrow
        (``pip install tandem-kafka[arrow]``).

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds.
            max_records: Maximum number of records; by default, all fetched records. The batch
                is also limited to 8 MiB and to ``fetch_buffer_max_bytes``, unless its first record
                is larger.
            columns: Names of the columns to build; all by default. They are topic (dictionary of
                string), partition (int32), offset (int64), timestamp (milliseconds, UTC; null if
                the record has none), timestamp_type (int8; 0 set by the producer, 1 by the
                broker), key and value (binary), headers (list of structs of key and value) and
                leader_epoch (int32).
            binary_view: Use the type binary_view for key and value. This avoids a copy, but the
                batch then keeps the received response in memory.
            key: Decodes keys, such as ``Text()``; see `tandem_kafka.tables`.
            value: Decodes values, such as ``Json(schema)``.

        Returns:
            The record batch. As in ``poll()``, positions move when this method returns.

        Raises:
            ImportError: pyarrow is not installed.
            IllegalStateError: The consumer has deserializers, or interceptors with
                ``on_consume()``. Neither can be used with Arrow.
            InvalidArgumentError: A column does not exist, two have the same name, or a decoder
                returned another number of values.
            ArgumentTypeError: ``key`` or ``value`` is no decoder.
            RecordDeserializationError: The next record cannot be decoded, and the decoder has
                ``errors="raise"``. Raised on every call until a seek past the record.
            KafkaError: As for ``poll()``.
        """
        form = ArrowForm(columns, binary_view, key, value)
        records, publication = run(self._reading.poll_arrow(timeout_ms, max_records, form))
        publication.done = True  # as in poll()
        return records

    @returning
    @guarded
    def _find_feed(self) -> None:
        """Find the feed with the next record for the `for` loop; see `Loop`."""
        core = self._core  # noqa: F841 - see `guarded`
        if not self._reading.find_feed_now(self._follow):
            raise StopIteration

    # --- closing -------------------------------------------------------------------------------

    def close(
        self,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        leave_group: Literal["default", "leave", "remain"] = "default",
    ) -> None:
        """Commit if auto-commit is on, run the listener, leave the group and stop the thread.

        Any thread may call this; a second call waits for the first. A poll() or iteration in
        another thread ends without losing records. If that thread does not return from a listener
        or deserializer in time, this method neither commits nor calls the listener.

        Args:
            autocommit: If False, do not commit.
            timeout_ms: Time limit in milliseconds, never more than ``request_timeout_ms``. The
                default is 30,000, or 5,000 if the coordinator is already unreachable.
            leave_group: Whether to leave the group (KIP-1092). "default" leaves, unless this is a
                static member (``group_instance_id``), which is expected to return. "leave" always
                leaves. "remain" never leaves; the membership ends with the session timeout.

        Raises:
            RebalanceCallbackError: The listener raised. The consumer is closed nevertheless.
        """
        call = partial(
            self._parts.closing.close,
            autocommit=autocommit,
            timeout_ms=timeout_ms,
            leave_group=leave_group,
        )
        close_on_any_thread(self._core, call)

    def __enter__(self) -> Self:
        """Return this consumer; the end of the block closes it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the consumer; commit only if the block raised nothing."""
        self.close(autocommit=exc_type is None)

    def __del__(self) -> None:
        """Warn that the consumer was never closed; stop its thread without a commit."""
        stop_unclosed(self, getattr(self, "_core", None))
