"""`KafkaConsumer`: the methods users call, each one an event, a wait and a result."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from kafka.future import Future
from typing_extensions import Unpack

from tandem_kafka.config import Config, ConsumerOptions
from tandem_kafka.consumer.arguments import (
    check_limit,
    check_offset,
    check_offsets,
    check_partition,
    check_partitions,
    check_timestamps,
    check_topics,
    compile_pattern,
)
from tandem_kafka.consumer.background import BackgroundEvents
from tandem_kafka.consumer.closing import Closing
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.iteration import Iteration
from tandem_kafka.consumer.listener import ListenerCalls, check_listener
from tandem_kafka.consumer.poller import Poller
from tandem_kafka.consumer.positions import Positions
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.events.application import (
    Assign,
    Bootstrap,
    EnforceRebalance,
    ListTopics,
    PartitionsForTopic,
    Subscribe,
    SubscribePattern,
)
from tandem_kafka.network.assembly import assemble
from tandem_kafka.runtime import Runtime
from tandem_kafka.shared.subscription import SubscriptionKind
from tandem_kafka.types import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

__all__ = ["KafkaConsumer"]

P = ParamSpec("P")
R = TypeVar("R")

_EARLIEST, _LATEST = -2, -1
_numbers = itertools.count(1)


def _owned(
    method: Callable[Concatenate[KafkaConsumer, P], R],
) -> Callable[Concatenate[KafkaConsumer, P], R]:
    """Let one thread at a time in, and none once the consumer is closed."""

    @functools.wraps(method)
    def guarded(self: KafkaConsumer, *args: P.args, **kwargs: P.kwargs) -> R:
        core = self._core
        core.acquire()
        try:
            return method(self, *args, **kwargs)
        finally:
            core.release()

    return guarded  # type: ignore[return-value]  # mypy takes `self` for a keyword


class KafkaConsumer:
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
        KafkaError: The cluster refused the connection, for example its authentication.
    """

    def __init__(self, *topics: str, **options: Unpack[ConsumerOptions]) -> None:
        self._start(Config.from_options(options), Runtime.threaded(), topics)

    def _start(
        self, config: Config, runtime: Runtime, topics: Sequence[str], transport: Any = None
    ) -> None:
        if config.client_id is None:
            config = _with_client_id(config)
        link = assemble(config, runtime, transport)
        core = Core(config, runtime, link)
        runtime.driver.start(link.loop, f"tandem-kafka-network ({config.client_id})")
        self._core = core
        self._config = config
        self._listener = ListenerCalls()
        self._deserializers = Deserializers(config)
        self._commits = Commits(core)
        self._positions = Positions(core)
        self._collector = Collector(
            link.subscription, link.buffer, self._deserializers, link.transport.wakeup
        )
        self._background = BackgroundEvents(core, self._commits, self._collector, self._listener)
        self._poller = Poller(core, self._commits, self._collector, self._background)
        self._iteration = Iteration(link.subscription)
        self._closing = Closing(
            core, self._commits, self._listener, self._background, self._deserializers
        )
        try:
            if config.bootstrap_timeout_ms and config.api_version is None:
                self.bootstrap()
            if topics:
                self.subscribe(topics)
        except BaseException:
            self.close(autocommit=False, timeout_ms=0)
            raise

    # --- what to read --------------------------------------------------------------------------

    @_owned
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
            pattern: Regular expression, a str or compiled; matched from the beginning of a name
                (`re.match`). Internal topics are left out unless `exclude_internal_topics=False`.
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
        subscription = self._core.link.subscription
        if pattern is not None:
            compiled = compile_pattern(pattern)
            subscription.check_kind(SubscriptionKind.PATTERN)
            self._core.ask(SubscribePattern(deadline_ms=deadline_ms, pattern=compiled))
        elif names:
            subscription.check_kind(SubscriptionKind.TOPICS)
            self._core.ask(Subscribe(deadline_ms=deadline_ms, topics=names))
        else:
            self._unsubscribe()
        self._listener.listener = listener

    @_owned
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
        self._core.link.subscription.check_kind(SubscriptionKind.USER_ASSIGNED)
        self._commits.auto_commit(self._core.clock.now_ms(), due=False)
        self._core.ask(Assign(deadline_ms=self._core.deadline_ms(None), partitions=chosen))
        self._collector.purge()

    @_owned
    def unsubscribe(self) -> None:
        """Give partitions back, leave the group, and drop subscription or assignment."""
        self._unsubscribe()

    def _unsubscribe(self) -> None:
        try:
            self._closing.unsubscribe()
        finally:
            self._collector.purge()

    @_owned
    def subscription(self) -> set[str] | None:
        """Return the topics subscribed to (or matched), None when there is no subscription."""
        subscription = self._core.link.subscription
        return set(subscription.topics) if subscription.auto_assigned else None

    @_owned
    def assignment(self) -> set[TopicPartition]:
        """Return the partitions assigned now."""
        return set(self._core.link.subscription.assigned)

    # --- reading -------------------------------------------------------------------------------

    @_owned
    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords:
        """Return records as soon as there are any, none when the timeout is over.

        Rebalance listeners and commit callbacks run in here.

        Args:
            timeout_ms: How long to wait for the first record, in milliseconds.
            max_records: How many records at most; by default `max_poll_records`.

        Returns:
            Records by partition, in the order of their offsets.

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
        limit = check_limit(max_records, self._config.max_poll_records)
        deadline_ms = self._core.deadline_ms(timeout_ms)
        begun = self._iteration.drain()
        return begun if begun.count else self._poller.poll(deadline_ms, limit)

    def __iter__(self) -> Self:
        """Iterate over records; ends after `consumer_timeout_ms` without one."""
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record; the position moves behind it."""
        if self._core.closed:
            raise StopIteration
        return self._next()

    @_owned
    def _next(self) -> ConsumerRecord:
        timeout_ms = self._config.consumer_timeout_ms
        record = self._iteration.next()
        if record is not None:
            return record
        endless = timeout_ms is None or timeout_ms < 0
        deadline_ms = self._core.deadline_ms(2**40 if endless else timeout_ms)
        while record is None:
            self._iteration.add(self._poller.poll(deadline_ms, self._config.max_poll_records))
            record = self._iteration.next()
            if record is None and self._core.clock.now_ms() >= deadline_ms:
                raise StopIteration
        return record

    def wakeup(self) -> None:
        """End the running poll, commit, committed, position, topics or partitions call.

        It raises `WakeupError`; where none is running, the next one does. Any thread and any
        signal handler may call this.
        """
        self._core.wakeup()

    @_owned
    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no records of these partitions; what is fetched already is kept.

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._positions.pause(_each(partitions))

    @_owned
    def resume(self, *partitions: TopicPartition) -> None:
        """Hand out records of these partitions again.

        Raises:
            NotAssignedError: One of them is not assigned.
        """
        self._positions.resume(_each(partitions))

    @_owned
    def paused(self) -> set[TopicPartition]:
        """Return the partitions paused now."""
        return {tp for tp, s in self._core.link.subscription.assigned.items() if s.paused}

    # --- positions -----------------------------------------------------------------------------

    @_owned
    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record of a partition, looking it up if need be.

        Raises:
            NotAssignedError: The partition is not assigned.
            NoOffsetForPartitionError: It has no position and `auto_offset_reset` is "none".
            KafkaTimeoutError: It could not be looked up in time.
            WakeupError: `wakeup()` was called.
        """
        offset: int = self._positions.position(check_partition(partition), timeout_ms).offset
        return offset

    @_owned
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at an offset. An `OffsetAndMetadata` with a leader epoch is validated (KIP-320).

        Raises:
            NotAssignedError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        check_partition(partition)
        target = check_offset(offset)
        self._positions.seek(partition, target)

    @_owned
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first offset there is; of all partitions if none is named.

        The offset is looked up by the next poll() or position().

        Raises:
            NotAssignedError: A partition is not assigned, or none is.
        """
        self._positions.reset(_each(partitions), _EARLIEST)

    @_owned
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last offset (last stable one under read_committed), likewise lazily.

        Raises:
            NotAssignedError: A partition is not assigned, or none is.
        """
        self._positions.reset(_each(partitions), _LATEST)

    @_owned
    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark that the last fetch told, None before the first.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        state = self._core.link.subscription.get(check_partition(partition))
        return state.high_watermark if state.high_watermark >= 0 else None

    @_owned
    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how many records are left to read; None while the end is not known (KIP-666).

        Asks no broker itself, but has the end looked up for the next call where it is unknown.

        Raises:
            NotAssignedError: The partition is not assigned.
        """
        return self._positions.lag(check_partition(partition))

    @_owned
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        Raises:
            KafkaTimeoutError: They could not be looked up in time.
        """
        return self._edges(partitions, _EARLIEST, timeout_ms)

    @_owned
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition.

        That is the high watermark; under read_committed the last stable offset.

        Raises:
            KafkaTimeoutError: They could not be looked up in time.
        """
        return self._edges(partitions, _LATEST, timeout_ms)

    def _edges(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        chosen = check_partitions(partitions)
        if timeout_ms == 0:
            return {}  # as in the Java client: no time, no answer, no error
        found = self._positions.look_up(dict.fromkeys(chosen, timestamp), timeout_ms)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    @_owned
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since the epoch) of each partition.

        None where no record is that young.

        Raises:
            InvalidArgumentError: A timestamp is negative.
            KafkaTimeoutError: They could not be looked up in time.
        """
        chosen = check_timestamps(timestamps)
        if timeout_ms == 0:
            return dict.fromkeys(chosen)
        return self._positions.look_up(chosen, timeout_ms)

    # --- commits -------------------------------------------------------------------------------

    @_owned
    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit and wait: the positions of what was handed out, or the offsets given.

        Callbacks of earlier `commit_async` calls run first.

        Raises:
            InvalidGroupIdError: There is no `group_id`.
            CommitFailedError: The group has moved on without us.
            KafkaTimeoutError: It kept failing for passing reasons until the timeout.
            TypeError, InvalidArgumentError: The offsets are not what they should be.
        """
        self._core.require_group()
        chosen = None if offsets is None else check_offsets(offsets)
        self._commits.commit_sync(chosen, timeout_ms)

    def commit_sync(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit and wait; the Java client's name for `commit`."""
        self.commit(offsets, timeout_ms)

    @_owned
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: Callable[[Any, Any], object] | None = None,
    ) -> Future:
        """Commit without waiting, once; it is not retried.

        Args:
            offsets: What to commit; by default the positions of what was handed out.
            callback: Called with offsets and error (None if it went well) on this thread, inside
                a later poll, commit or close; in the order of the commits.

        Returns:
            kafka-python's future, which ends when the callback runs.

        Raises:
            InvalidGroupIdError: There is no `group_id`.
            TypeError, InvalidArgumentError: The offsets are not what they should be.
        """
        self._core.require_group()
        chosen = None if offsets is None else check_offsets(offsets)
        return self._commits.commit_async(chosen, callback)

    @_owned
    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the committed offset of a partition, None if there is none.

        Args:
            partition: Assigned or not.
            metadata: Return the whole `OffsetAndMetadata` instead of the offset.
            timeout_ms: How long to try, in milliseconds.

        Raises:
            InvalidGroupIdError: There is no `group_id`.
            KafkaTimeoutError: It could not be looked up in time.
            WakeupError: `wakeup()` was called.
        """
        self._core.require_group()
        tp = check_partition(partition)
        found = self._positions.committed([tp], timeout_ms)[tp]
        return found if metadata or found is None else found.offset

    # --- the group -----------------------------------------------------------------------------

    @_owned
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who we are in the group, as a transactional producer needs it (KIP-447).

        Raises:
            InvalidGroupIdError: There is no `group_id`.
        """
        self._core.require_group()
        return self._core.link.group.metadata

    @_owned
    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Have the group rebalance (KIP-568); the next poll takes part.

        Raises:
            InvalidGroupIdError: There is no `group_id`.
        """
        self._core.require_group()
        self._core.ask(EnforceRebalance(deadline_ms=self._core.deadline_ms(None), reason=reason))

    # --- the cluster ---------------------------------------------------------------------------

    @_owned
    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics this client may see, without internal ones.

        Raises:
            KafkaTimeoutError: The cluster did not answer in time.
            WakeupError: `wakeup()` was called.
        """
        event = ListTopics(deadline_ms=self._core.deadline_ms(timeout_ms))
        found = self._core.ask(event, interruptible=True)
        return {name for name, topic in found.items() if not topic.internal}

    @_owned
    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the partition numbers of a topic, empty if it does not exist.

        Raises:
            KafkaTimeoutError: The cluster did not answer in time.
            TopicAuthorizationFailedError, InvalidTopicError: The cluster refuses.
            WakeupError: `wakeup()` was called.
        """
        (name,) = check_topics([topic])
        known = self._core.link.metadata.snapshot.topics.get(name)
        if known is None:
            event = PartitionsForTopic(deadline_ms=self._core.deadline_ms(timeout_ms), topic=name)
            known = self._core.ask(event, interruptible=True)
        return set(known.partitions) if known is not None else set()

    @_owned
    def bootstrap(self, timeout_ms: float | None = None) -> None:
        """Wait for the first contact with the cluster, by default `bootstrap_timeout_ms`.

        Raises:
            KafkaTimeoutError: No bootstrap server answered in time.
            KafkaError: The cluster refused.
        """
        if timeout_ms is None:
            timeout_ms = self._config.bootstrap_timeout_ms
        self._core.ask(Bootstrap(deadline_ms=self._core.deadline_ms(timeout_ms)))

    @_owned
    def bootstrap_connected(self) -> bool:
        """Tell whether the cluster has been reached."""
        return self._core.link.metadata.snapshot.version > 0

    @property
    def config(self) -> Config:
        """The settled options."""
        return self._config

    # --- the end -------------------------------------------------------------------------------

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit (if auto-commit is on), run the listener, leave the group, end the thread.

        Args:
            autocommit: Leave the commit out if False.
            timeout_ms: A hard bound, by default 30 s; never more than `request_timeout_ms`.

        A second close does nothing. Raises the listener's error, once everything is done.
        """
        core = self._core
        core.acquire_for_close()
        try:
            if not (core.closed or core.closing):
                core.closing = True
                try:
                    self._closing.close(timeout_ms, commit=autocommit)
                finally:
                    core.closed = True
        finally:
            core.release()

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
        core.link.loop.stop()

    def __repr__(self) -> str:
        """Name the client and its group."""
        group = f", group {self._config.group_id!r}" if self._config.group_id is not None else ""
        return f"<KafkaConsumer {self._config.client_id!r}{group}>"


def _each(partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(check_partition(tp) for tp in partitions)


def _with_client_id(config: Config) -> Config:
    suffix = config.group_instance_id or next(_numbers)
    return dataclasses.replace(config, client_id=f"consumer-{config.group_id or ''}-{suffix}")
