"""`KafkaConsumer`: the methods users call, each one an event, a wait and a result."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import warnings
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from typing_extensions import Unpack

from tandem_kafka.config import Config, ConsumerOptions
from tandem_kafka.consumer.arguments import (
    check_arrow_usable,
    check_leave,
    check_limit,
    check_partitions,
    check_regex,
    check_topics,
    compile_pattern,
)
from tandem_kafka.consumer.background_events import BackgroundEvents
from tandem_kafka.consumer.borrowed import for_network_thread
from tandem_kafka.consumer.closing import Closing
from tandem_kafka.consumer.cluster_methods import ClusterMethods
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.interceptors import Interceptors
from tandem_kafka.consumer.iteration import Iteration, Loop, Run
from tandem_kafka.consumer.listener import ListenerCalls, check_listener
from tandem_kafka.consumer.offset_methods import OffsetMethods
from tandem_kafka.consumer.owned import owned
from tandem_kafka.consumer.poller import Poller
from tandem_kafka.consumer.positions import Positions
from tandem_kafka.consumer.publication import Publication
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.engine.assembly import assemble
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.events.application import Assign, Subscribe, SubscribePattern, SubscribeRegex
from tandem_kafka.records import check_arrow_columns, to_record_batch
from tandem_kafka.runtime import Runtime
from tandem_kafka.shared.subscription import SubscriptionKind
from tandem_kafka.types import SubscriptionPattern, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaConsumer"]

#: The loop's records are made in advance; more at once would cost memory and gain nothing.
MAX_RUN_RECORDS = 1_000

_numbers = itertools.count(1)


class KafkaConsumer(OffsetMethods, ClusterMethods, Loop):
    """Reads records from a Kafka cluster.

    Args:
        *topics: Topics to subscribe to at once; needs `group_id`.
        **options: See `ConsumerOptions`; the names are those of kafka-python, and the Java
            client's with underscores.

    A network thread of its own does all input and output; the thread that calls the methods runs
    deserializers, callbacks and listeners. One thread may use a consumer at a time; `wakeup()` is
    the exception. Every blocking method takes `timeout_ms`, by default `default_api_timeout_ms`.

    Raises:
        KafkaConfigurationError: An option is unknown or has a value that is not allowed.
        InvalidGroupIdError: `group_id` is blank, or topics are given without one.
        KafkaTimeoutError: No bootstrap server answered within `bootstrap_timeout_ms` (with 0,
            or with `api_version` given, the constructor does not wait).
        NetworkThreadError: The system has no thread to spare.
        KafkaError: The cluster refused the connection, for example its authentication.
    """

    def __init__(self, *topics: str, **options: Unpack[ConsumerOptions]) -> None:
        self._start(Config.from_options(options), Runtime.threaded(), topics)

    def _start(
        self, config: Config, runtime: Runtime, topics: Sequence[str], transport: Any = None
    ) -> None:
        if config.client_id is None:
            config = _with_client_id(config)
        self._interceptors = Interceptors(config.interceptor_classes)
        self._deserializers = Deserializers(config)
        hooks = (self._interceptors, self._deserializers)
        try:
            engine = assemble(for_network_thread(config), runtime, transport)
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
        self._poller = Poller(core, self._commits, self._collector, self._background)
        self._iteration = Iteration(engine.subscription)
        self._closing = Closing(core, self._commits, self._listener, hooks)
        try:
            if config.bootstrap_timeout_ms and config.api_version is None:
                self.bootstrap()
            if topics:
                self.subscribe(topics)
        except BaseException:
            self.close(autocommit=False, timeout_ms=0)
            raise

    # --- what to read --------------------------------------------------------------------------

    @owned
    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: Any = None,
        listener: Any = None,
    ) -> None:
        """Subscribe to topics, or to all that a pattern matches; the next poll joins the group.

        Replaces what was subscribed before, and the listener. No topics at all means
        `unsubscribe()`.

        Args:
            topics: Names.
            pattern: Regular expression, a str or compiled; matched here, from the beginning of a
                name (`re.match`). Internal topics are left out unless
                `exclude_internal_topics=False`. A `SubscriptionPattern` is matched by the
                coordinator, against whole names (needs `group_protocol` "consumer" or "auto").
            listener: A `ConsumerRebalanceListener` or any object with its methods; called on the
                thread that polls.

        Raises:
            IllegalStateError: Partitions are assigned, or topics and a pattern would be mixed.
            InvalidGroupIdError: There is no `group_id`.
            InvalidArgumentError: A name, pattern or listener is not allowed.
        """
        names = check_topics(topics)
        if names and pattern is not None:
            msg = "subscribe() takes topics or a pattern, not both"
            raise InvalidArgumentError(msg)
        check_listener(listener)
        self._core.require_group()
        deadline_ms = self._core.deadline_ms(None)
        subscription = self._core.engine.subscription
        if isinstance(pattern, SubscriptionPattern):
            self._subscribe_regex(pattern, deadline_ms)
        elif pattern is not None:
            compiled = compile_pattern(pattern)
            subscription.check_kind(SubscriptionKind.PATTERN)
            self._core.ask(SubscribePattern(deadline_ms=deadline_ms, pattern=compiled))
        elif names:
            subscription.check_kind(SubscriptionKind.TOPICS)
            self._core.ask(Subscribe(deadline_ms=deadline_ms, topics=names))
        else:
            self._unsubscribe()
        self._listener.listener = listener

    def _subscribe_regex(self, pattern: SubscriptionPattern, deadline_ms: int) -> None:
        regex = check_regex(pattern, self._config.group_protocol)
        self._core.engine.subscription.check_kind(SubscriptionKind.REGEX)
        self._core.ask(SubscribeRegex(deadline_ms=deadline_ms, regex=regex))

    @owned
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's say; those assigned before keep their state.

        No partitions at all means `unsubscribe()`. With auto-commit on, what was handed out is
        committed first.

        Raises:
            IllegalStateError: Topics or a pattern are subscribed.
            TypeError, InvalidArgumentError: Something is not a TopicPartition.
        """
        chosen = check_partitions(partitions)
        if not chosen:
            self._unsubscribe()
            return
        self._core.engine.subscription.check_kind(SubscriptionKind.USER_ASSIGNED)
        self._commits.auto_commit(self._core.clock.now_ms(), due=False)
        self._core.ask(Assign(deadline_ms=self._core.deadline_ms(None), partitions=chosen))
        self._collector.purge()

    @owned
    def unsubscribe(self) -> None:
        """Give partitions back, leave the group, and drop subscription or assignment."""
        self._unsubscribe()

    def _unsubscribe(self) -> None:
        try:
            self._closing.unsubscribe()
        finally:
            self._collector.purge()

    @owned
    def subscription(self) -> set[str] | None:
        """Return the topics subscribed to (or matched), None when there is no subscription."""
        subscription = self._core.engine.subscription
        return set(subscription.topics) if subscription.auto_assigned else None

    @owned
    def assignment(self) -> set[TopicPartition]:
        """Return the partitions assigned now."""
        return set(self._core.engine.subscription.assigned)

    # --- reading -------------------------------------------------------------------------------

    @guarded
    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords:
        """Return records as soon as there are any, none when the timeout is over.

        Rebalance listeners and commit callbacks run in here.

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds.
            max_records: How many records at most; by default `max_poll_records`. Fewer are
                returned if they reach `fetch_buffer_max_bytes`, but at least one.

        Returns:
            Records by partition, in the order of their offsets. Positions move with the return:
            an interrupt (Ctrl-C) before it loses nothing, the next call returns the same records.

        Raises:
            IllegalStateError: Nothing is subscribed or assigned.
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
            batch, publication = self._next_batch(deadline_ms, limit)
        finally:
            held.release()
        # All positions move by this one store. Nothing may stand between it and the return: an
        # interrupt there would lose the records.
        publication.done = True
        return batch

    def _next_batch(self, deadline_ms: int, limit: int) -> tuple[ConsumerRecords, Publication]:
        """Return records, and what is done once they are returned to the user."""
        batch = self._poller.poll(deadline_ms, limit)
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
            IllegalStateError: Nothing is subscribed or assigned, or there are deserializers or
                interceptors with on_consume(), which have no place here.
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
            batch, publication = self._next_batch(deadline_ms, limit)
            records = to_record_batch(tuple(batch.values()), chosen, binary_view=binary_view)
        finally:
            held.release()
        publication.done = True  # as in poll()
        return records

    @guarded
    def _find_feed(self) -> None:
        """Have the loop go on with what comes next; see `Loop`."""
        core = self._core
        if core.closed:
            raise StopIteration
        held = core.acquire()
        try:
            changes = core.engine.subscription.changes
            seen = changes.count  # before looking: a change meanwhile is looked at next time
            run = self._iteration.ready()
            if run is None:
                seen, run = self._await_run()
            self._follow(run.feed, changes, seen)
        finally:
            held.release()

    def _await_run(self) -> tuple[int, Run]:
        timeout_ms = self._config.consumer_timeout_ms
        endless = timeout_ms is None or timeout_ms < 0
        deadline_ms = self._core.deadline_ms(2**40 if endless else timeout_ms)
        limit = min(self._config.max_poll_records, MAX_RUN_RECORDS)
        changes = self._core.engine.subscription.changes
        while True:
            self._iteration.add(*self._next_batch(deadline_ms, limit))
            seen = changes.count
            run = self._iteration.ready()
            if run is not None:
                return seen, run
            if self._core.clock.now_ms() >= deadline_ms:
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

        A second close does nothing. Raises the listener's error, once everything is done.
        """
        core = self._core
        operation = check_leave(leave_group)
        held = core.acquire_for_close()
        try:
            if not (core.closed or core.closing):
                core.closing = True
                self._iteration.end()
                try:
                    self._closing.close(timeout_ms, commit=autocommit, leave=operation)
                finally:
                    core.closed = True
        finally:
            held.release()

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
