"""`KafkaConsumer`: the methods users call, each one an event, a wait and a result."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import sys
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, overload

from typing_extensions import Unpack

from tandem_kafka.config import Config, ConsumerOptions, PlainOptions, default_config
from tandem_kafka.consumer.arguments import (
    check_arrow_usable,
    check_leave,
    check_limit,
)
from tandem_kafka.consumer.background_events import BackgroundEvents
from tandem_kafka.consumer.borrowed import for_network_thread
from tandem_kafka.consumer.closing import Closing, Hook
from tandem_kafka.consumer.cluster_methods import ClusterMethods
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.interceptors import Interceptors
from tandem_kafka.consumer.iteration import Iteration, Loop, Run
from tandem_kafka.consumer.listener import ListenerCalls
from tandem_kafka.consumer.offset_methods import OffsetMethods
from tandem_kafka.consumer.poller import Poller
from tandem_kafka.consumer.positions import Positions
from tandem_kafka.consumer.publication import Publication
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.consumer.reporters import Reporters
from tandem_kafka.consumer.subscription_methods import SubscriptionMethods
from tandem_kafka.engine.assembly import assemble
from tandem_kafka.errors import ConsumerClosedError
from tandem_kafka.records import check_arrow_columns, to_record_batch
from tandem_kafka.runtime import Held, Runtime
from tandem_kafka.shared.subscription import SubscriptionKind
from tandem_kafka.types import ConsumerRecord, KeyT, ValueT

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka.config.typed import Deserializes

__all__ = ["KafkaConsumer"]

log = logging.getLogger(__name__)

#: The loop's records are made in advance; more at once would cost memory and gain nothing.
MAX_RUN_RECORDS = 1_000

_numbers = itertools.count(1)


class KafkaConsumer(
    SubscriptionMethods, OffsetMethods, ClusterMethods, Loop, Generic[KeyT, ValueT]
):
    """Reads records from a Kafka cluster.

    Args:
        *topics: Topics to subscribe to at once.
        **options: See `ConsumerOptions`; the names are those of kafka-python, and the Java
            client's with underscores.

    A network thread of its own does all input and output; the thread that calls the methods runs
    deserializers, callbacks and listeners. One thread at a time may poll or iterate; all other
    methods may be called by any thread, beside it. Every blocking method takes `timeout_ms`, by
    default `default_api_timeout_ms`.

    Raises:
        KafkaConfigurationError: An option is unknown or has a value that is not allowed.
        InvalidGroupIdError: `group_id` is blank.
        KafkaTimeoutError: No bootstrap server answered within `bootstrap_timeout_ms` (with 0,
            or with `api_version` given, the constructor does not wait).
        NetworkThreadError: The system has no thread to spare.
        KafkaError: The cluster refused the connection, for example its authentication.
    """

    #: The options and their defaults.
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = default_config()

    # What deserializers return is what keys and values are.
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

    def __init__(self, *topics: str, **options: Unpack[ConsumerOptions]) -> None:
        self._start(Config.from_options(options), Runtime.threaded(), topics)

    def _start(
        self, config: Config, runtime: Runtime, topics: Sequence[str], transport: Any = None
    ) -> None:
        self._written = config.by_name()
        if config.client_id is None:
            config = _with_client_id(config)
            self._written["client_id"] = config.client_id
        self._interceptors = Interceptors(config.interceptor_classes)
        self._deserializers = Deserializers(config)
        hooks: list[Hook] = [self._interceptors, self._deserializers]
        try:
            reporters = Reporters(config)
            hooks.append(reporters)
            engine = assemble(for_network_thread(config), runtime, transport)
            reporters.follow(engine.metrics)
            core = Core(config, runtime, engine)
            core.start_network_thread()
        except BaseException:
            for hook in hooks:
                hook.close()
            raise
        self._core = core
        self._config = config
        self._listener = ListenerCalls(core)
        self._commits = Commits(core, self._interceptors)
        self._positions = Positions(core)
        self._collector = Collector(
            engine.subscription,
            engine.buffer,
            self._deserializers,
            engine.transport.wakeup,
            config.fetch_buffer_max_bytes,
        )
        self._background = BackgroundEvents(core, self._commits, self._collector, self._listener)
        self._poller = Poller(core, self._commits, self._collector, self._background, reporters)
        #: The loop calls deserializers when a record's turn comes, if no interceptor is before it.
        self._loop_deserializes = self._deserializers.active and not self._interceptors.consuming
        self._iteration = Iteration(
            engine.subscription, self._deserializers if self._loop_deserializes else None
        )
        self._closing = Closing(core, self._commits, self._listener, hooks)
        try:
            if config.bootstrap_timeout_ms and config.api_version is None:
                self.bootstrap()
            if topics:
                self.subscribe(topics)
            reporters.report()
        except BaseException:
            self.close(autocommit=False, timeout_ms=0)
            raise

    if TYPE_CHECKING:

        def __iter__(self) -> Self: ...

        def __next__(self) -> ConsumerRecord[KeyT, ValueT]: ...

    # --- reading -------------------------------------------------------------------------------

    @guarded
    def poll(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
    ) -> ConsumerRecords[KeyT, ValueT]:
        """Return records as soon as there are any, none when the timeout is over.

        Rebalance listeners and commit callbacks run in here.

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds.
            max_records: How many records at most; by default `max_poll_records`. Fewer are
                returned if they reach `fetch_buffer_max_bytes`, but at least one.
            update_offsets: False leaves positions where they are; kafka-python has it for itself.

        Returns:
            Records by partition, in the order of their offsets. Positions move with the return:
            an interrupt (Ctrl-C) before it loses nothing, the next call returns the same records.

        Raises:
            ConsumerClosedError: The consumer has been closed; a poll that another thread closes
                returns what it has.
            ConcurrentModificationError: Another thread is reading.
            WakeupError: `wakeup()` was called.
            NoOffsetForPartitionError, OffsetOutOfRangeError: There is no position and
                `auto_offset_reset` is "none"; raised until a seek.
            RecordDeserializationError, CorruptRecordError: The next record cannot be read; raised
                until a seek behind it.
            TopicAuthorizationFailedError, GroupAuthorizationFailedError, InvalidTopicError: The
                cluster refuses.
            RebalanceCallbackError: A listener raised.
        """
        core = self._core
        held = core.acquire()
        try:
            limit = check_limit(max_records, self._config.max_poll_records)
            deadline_ms = core.deadline_ms(timeout_ms)
            self._iteration.end()
            batch, publication = self._next_batch(deadline_ms, limit, held)
        finally:
            held.release()
        # All positions move by this one store. Nothing may stand between it and the return: an
        # interrupt there would lose the records.
        publication.done = update_offsets
        return batch

    def _next_batch(
        self, deadline_ms: int, limit: int, held: Held, *, raw: bool = False
    ) -> tuple[ConsumerRecords[Any, Any], Publication]:
        """Return records, and what is done once they are returned to the user.

        Args:
            deadline_ms: When to return without records.
            limit: How many records at most.
            held: What `acquire` returned.
            raw: Leave deserializing to the loop.
        """
        self._collector.raw = raw
        batch = self._poller.poll(deadline_ms, limit, held)
        publication = self._collector.publication
        if batch and self._interceptors.consuming:
            batch = self._interceptors.on_consume(batch)
        return batch, publication

    @guarded
    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        binary_view: bool = False,
    ) -> pa.RecordBatch:
        """Return records as an Arrow record batch; empty when the timeout is over.

        Like `poll()` in everything else: positions, commits, pauses and rebalances. Needs pyarrow
        (`pip install tandem-kafka[arrow]`).

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds.
            max_records: How many records at most; by default all that have been fetched. Fewer
                are returned if they reach `fetch_buffer_max_bytes`, but at least one.
            columns: Which columns to build, by default all: topic (dictionary of string),
                partition (int32), offset (int64), timestamp (milliseconds, UTC; null where there
                is none), timestamp_type (int8: 0 producer's, 1 broker's), key, value (binary),
                headers (list of struct of key and value), leader_epoch (int32).
            binary_view: Give key and value the type binary_view, which does without a copy: the
                batch then keeps the memory it was received in.

        Raises:
            ImportError: pyarrow is not installed.
            IllegalStateError: There are deserializers or interceptors with on_consume(), which
                have no place here.
            InvalidArgumentError: There is no such column.
            KafkaError: As for `poll()`.
        """
        core = self._core
        held = core.acquire()
        try:
            chosen = check_arrow_columns(columns)
            check_arrow_usable(
                deserializing=self._deserializers.active, intercepting=self._interceptors.consuming
            )
            limit = check_limit(max_records, sys.maxsize)
            deadline_ms = core.deadline_ms(timeout_ms)
            self._iteration.end()
            batch, publication = self._next_batch(deadline_ms, limit, held)
            records = to_record_batch(tuple(batch.values()), chosen, binary_view=binary_view)
        finally:
            held.release()
        publication.done = True  # as in poll()
        return records

    @guarded
    def _find_feed(self) -> None:
        """Have the loop go on with what comes next; see `Loop`."""
        core = self._core
        try:
            held = core.acquire()
        except ConsumerClosedError:
            raise StopIteration from None  # by this thread or another, before or while it is read
        try:
            changes = core.engine.subscription.changes
            seen = changes.count  # before looking: a change meanwhile is looked at next time
            run = self._iteration.ready()
            if run is None:
                seen, run = self._await_run(held)
            self._follow(run.feed, changes, seen)
        finally:
            held.release()

    def _await_run(self, held: Held) -> tuple[int, Run]:
        core, timeout_ms = self._core, self._config.consumer_timeout_ms
        endless = timeout_ms is None or timeout_ms < 0
        if endless and core.engine.subscription.kind is SubscriptionKind.NONE:
            log.warning("iteration ends at once: nothing is subscribed or assigned")
            raise StopIteration
        deadline_ms = core.deadline_ms(2**40 if endless else timeout_ms)
        limit = min(self._config.max_poll_records, MAX_RUN_RECORDS)
        changes = core.engine.subscription.changes
        while True:
            self._iteration.add(
                *self._next_batch(deadline_ms, limit, held, raw=self._loop_deserializes)
            )
            seen = changes.count
            run = self._iteration.ready()
            if run is not None:
                return seen, run
            if core.closed or core.clock.now_ms() >= deadline_ms:
                raise StopIteration

    def wakeup(self) -> None:
        """End the running poll, commit, committed, position, topics or partitions call.

        It raises `WakeupError`; where none is running, the next one does. Any thread and any
        signal handler may call this.
        """
        self._core.wakeup()

    # --- the end -------------------------------------------------------------------------------

    @guarded
    def close(
        self,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        leave_group: Literal["default", "leave", "remain"] = "default",
    ) -> None:
        """Commit (if auto-commit is on), run the listener, leave the group, end the thread.

        Args:
            autocommit: Leave the commit out if False.
            timeout_ms: A hard bound, by default 30 s; never more than `request_timeout_ms`. Without
                one, a coordinator that was unreachable before the close is given 5 s.
            leave_group: "default" leaves the group, but a static member (`group_instance_id`)
                stays in it and is expected back; "leave" leaves in any case, "remain" stays in
                any case until the session times out (KIP-1092).

        Any thread may close: a poll() or an iteration of another one ends, its records are not
        lost. If the other thread does not come back from a listener or deserializer in time, there
        is no last commit and no call of the listener. A second close waits for the first.

        Raises the listener's error, once everything is done.
        """
        core = self._core
        operation = check_leave(leave_group)
        core.check_process()
        first = not core.closing
        deadline_ms = self._closing.deadline_ms(timeout_ms)
        try:
            core.closing = True
            visit = core.visit(deadline_ms)
        except BaseException:
            core.closing = (
                not first
            )  # interrupted before anything was done: the next close() does it
            raise
        try:
            if first and not core.closed:
                alone = visit is not None
                if alone:
                    self._iteration.end()
                try:
                    self._closing.close(
                        deadline_ms, commit=autocommit, leave=operation, alone=alone
                    )
                finally:
                    core.closed = True
        finally:
            if visit is not None:
                visit.release()

    @property
    def _closed(self) -> bool:
        """Whether `close()` was called; programs and frameworks look at kafka-python's."""
        return self._core.closing or self._core.closed

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; commit only if the block ended well."""
        self.close(autocommit=exc_type is None)

    def __del__(self) -> None:
        """Warn about a consumer that was never closed; its thread ends, it does not commit."""
        core = getattr(self, "_core", None)
        if core is None or core.closed or not core.in_own_process:
            return
        warnings.warn(f"unclosed consumer {self!r}", ResourceWarning, source=self, stacklevel=2)
        core.engine.loop.stop()

    def __repr__(self) -> str:
        """Name the client and its group."""
        group = f", group {self._config.group_id!r}" if self._config.group_id is not None else ""
        return f"<KafkaConsumer {self._config.client_id!r}{group}>"


def _with_client_id(config: Config) -> Config:
    suffix = config.group_instance_id or str(next(_numbers))
    parts = ["consumer", config.group_id, suffix]
    return dataclasses.replace(config, client_id="-".join(filter(None, parts)))
