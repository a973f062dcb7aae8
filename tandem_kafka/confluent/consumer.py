"""`Consumer`: the methods of `confluent_kafka.Consumer`, implemented with `KafkaConsumer`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaError, Message, TopicPartition
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

from tandem_kafka import KafkaConsumer
from tandem_kafka.confluent.configuration import Configuration, merged, settings_from
from tandem_kafka.confluent.errors import failure, raising, refusal
from tandem_kafka.confluent.events import Events
from tandem_kafka.confluent.lookups import Lookups, group_bytes
from tandem_kafka.confluent.messages import message_of
from tandem_kafka.confluent.offsets import StoredOffsets
from tandem_kafka.confluent.partitions import (
    as_topic_partition,
    check_assignment,
    check_partitions,
)
from tandem_kafka.confluent.reader import Reader
from tandem_kafka.confluent.rebalancing import Callback, Rebalances
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.runtime import Runtime

_MAX_MESSAGES: Final = 1_000_000


class Consumer:
    """Reads messages singly or in lists, with librdkafka's names and conventions.

    Args:
        config: librdkafka properties and callbacks.
        logger: Accepted and ignored; this library logs to Python's logger `tandem_kafka`.
        **more: More properties and callbacks (`on_commit`, `error_cb`, `stats_cb`, ...).

    Callbacks run inside `poll()`, `consume()`, `unsubscribe()` and `close()`; these methods raise
    the exceptions of callbacks.

    Positions and stored offsets move when `poll()` or `consume()` returns. If an interrupt (Ctrl-C)
    ends a call before, the next one returns the same messages.

    Raises:
        KafkaException: A property is unknown, or its value is not allowed (`_INVALID_ARG`).
        ValueError: `group.id` is missing.
        TypeError: The configuration is not a dict, or a callback is not callable.
    """

    _message_of = staticmethod(message_of)
    _closed = True  # until `_begin`, also if a subclass does not call `__init__`

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, logger: Any = None, **more: Any
    ) -> None:
        if config is None and more:
            config = {}
        config = more = merged(config, {**more, "logger": logger})
        settings = settings_from(config)
        with raising("Failed to create consumer"):
            kafka = KafkaConsumer(**settings.options)
        self._begin(kafka, settings, Runtime.threaded())

    def _begin(
        self, kafka: KafkaConsumer[Any, Any], settings: Configuration, runtime: Runtime
    ) -> None:
        shared = Shared(kafka, settings, runtime)
        self._kafka, self._assigned, self._taken = kafka, shared.assigned, shared.taken
        self._changes = shared.changes
        self._callbacks, self._now_ms = shared.callbacks, shared.clock.now_ms
        self._offsets = StoredOffsets(shared)
        self._assignment = Rebalances(shared, self._offsets, self)
        self._events = Events(shared, self._assignment)
        self._lookups = Lookups(shared)
        self._reader = Reader(shared, self._assignment, self._events, self._offsets)
        self._closed = False

    # --- reading -------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Message[bytes, bytes] | None:
        """Return the next message or event, or None after the timeout.

        Args:
            timeout: Seconds; None or a negative number waits forever.

        Raises:
            RuntimeError: The consumer is closed, or another thread is polling.
            KafkaException: The consumer cannot continue.
        """
        if self._closed or self._changes.unfinished is not None:
            self._check_open()
        if not self._reader.ready():
            self._reader.collect(1, _wait_ms(timeout))
        taken = self._taken
        items, given, drops = taken.items, taken.given, taken.drops
        try:
            item = items[given - items[0]]
        except IndexError:
            return None
        message = self._message_of(item)
        if taken.given == given and taken.drops == drops:
            # Invariant: this store moves the position directly before the return; see `Taken`.
            taken.given = given + 1
            return message
        return self.poll(timeout)  # another thread was faster

    def consume(
        self, num_messages: int = 1, timeout: float | None = -1
    ) -> list[Message[bytes, bytes]]:
        """Return up to `num_messages` messages and events; fewer after the timeout.

        Raises:
            ValueError: `num_messages` is negative or above a million.
            RuntimeError: The consumer is closed, or another thread is polling.
        """
        self._check_open()
        if not 0 <= num_messages <= _MAX_MESSAGES:
            msg = "num_messages must be between 0 and 1000000 (1M)"
            raise ValueError(msg)
        taken = self._taken
        self._reader.collect(num_messages, _wait_ms(timeout))
        while True:
            given, drops = taken.given, taken.drops
            at = given - taken.items[0]
            found = taken.items[at : at + num_messages]
            messages = list(map(message_of, found))
            after = given + len(found)
            if taken.given == given and taken.drops == drops:
                taken.given = after  # as in `poll()`
                return messages

    # --- the assignment ------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Subscribe to topics; names that begin with ^ are regular expressions.

        Args:
            topics: The new subscription, which replaces the previous one.
            on_assign: Called with this consumer and the new partitions. It may call `assign()`
                to choose the offsets to start from.
            on_revoke: Called with partitions before they are revoked.
            on_lost: Called with partitions that other members may already own; defaults to
                `on_revoke`.

        Raises:
            KafkaException: The list is empty, or a name is not allowed.
            TypeError: An argument has the wrong type.
        """
        self._check_open()
        callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        for name, callback in callbacks.items():
            if callback is not None and not callable(callback):
                msg = f"{name} expects a callable"
                raise TypeError(msg)
        given: Any = topics
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            msg = "expected list of topic unicode strings"
            raise TypeError(msg)
        if not topics or not all(topics):
            raise refusal("Failed to set subscription", KafkaError._INVALID_ARG)
        with raising("Failed to set subscription"):
            self._changes.make(partial(self._assignment.subscribe, topics, callbacks))
        self._events.subscribed(topics)
        self._callbacks.raise_error()

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        self._check_open()
        with raising("Failed to remove subscription"):
            self._changes.make(self._assignment.unsubscribe)
        self._callbacks.raise_error()

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, starting from their offsets if set.

        Inside `on_assign`, this chooses the offsets to start from; omitted partitions are not read.
        """
        self._check_open()
        with raising("Failed to set assignment"):
            self._assignment.assign(check_assignment(partitions))

    def unassign(self) -> None:
        """Stop reading all partitions."""
        self._check_open()
        with raising("Failed to remove assignment"):
            self._assignment.unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Also read these partitions.

        Inside `on_assign`, this chooses the offsets to start from. Those of its partitions that are
        omitted are not read.
        """
        self._check_open()
        with raising("Incremental assign failed"):
            self._assignment.incremental_assign(check_assignment(partitions))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions."""
        self._check_open()
        with raising("Incremental unassign failed"):
            self._assignment.incremental_unassign(check_partitions(partitions))

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read, with the offsets they were assigned with."""
        self._check_open()
        return [
            TopicPartition(*part.tp, OFFSET_STORED if part.start == OFFSET_INVALID else part.start)
            for part in sorted(self._assigned, key=lambda part: part.tp)
            if "muted" not in part.inactive
        ]

    # --- offsets -------------------------------------------------------------------------------

    def commit(
        self,
        message: Message[Any, Any] | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit the offset of a message, the given offsets, or the stored offsets.

        Returns:
            None, or with `asynchronous=False` the partitions with the committed offsets.

        Raises:
            KafkaException: With `asynchronous=False`: the commit failed; `_NO_OFFSET` if there
                is nothing to commit.
        """
        self._check_open()
        found = self._offsets.commit(message, offsets, asynchronous=bool(asynchronous))
        self._callbacks.raise_error()
        return found

    def store_offsets(
        self, message: Message[Any, Any] | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Store offsets for the next commit; requires `enable.auto.offset.store=False`.

        Raises:
            KafkaException: Offsets are stored automatically (`_INVALID_ARG`), or a partition is
                not assigned (`_STATE`).
        """
        self._check_open()
        if message is None and offsets is None:
            msg = "expected either message or offsets"
            raise ValueError(msg)
        self._offsets.store(message, offsets)

    def committed(
        self, partitions: list[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Return committed offsets; `OFFSET_INVALID` for partitions without one."""
        self._check_open()
        return self._lookups.committed(check_partitions(partitions), _limit_ms(timeout))

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return offsets after the last returned messages; `OFFSET_INVALID` before the first."""
        self._check_open()
        self._taken.settle()
        parts = [(each.key, self._assigned.get(each.key)) for each in check_partitions(partitions)]
        return [
            as_topic_partition(key, None if part is None else part.position) for key, part in parts
        ]

    def seek(self, partition: TopicPartition) -> None:
        """Continue from the partition's offset, for example `OFFSET_BEGINNING`.

        Raises:
            KafkaException: The partition is not assigned (`_STATE`, `_UNKNOWN_PARTITION`).
        """
        self._check_open()
        (each,) = check_partitions([partition])
        what = f"Failed to seek to offset {each.offset}"
        part = self._assigned.get(each.key)
        if part is None:
            known = any(other.tp.topic == each.key.topic for other in self._assigned)
            raise refusal(what, KafkaError._STATE if known else KafkaError._UNKNOWN_PARTITION)
        with raising(what):
            self._assignment.seek(part, each)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Return no messages of these partitions; partitions that are not assigned are ignored."""
        self._check_open()
        with raising("Failed to pause partitions"):
            self._assignment.pause(check_partitions(partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Return messages of these partitions again; ignores partitions that are not assigned."""
        self._check_open()
        with raising("Failed to resume partitions"):
            self._assignment.resume(check_partitions(partitions))

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset and the end offset of a partition."""
        self._check_open()
        (each,) = check_partitions([partition])
        if cached:
            return self._lookups.known_watermarks(each)
        return self._lookups.watermarks(each, _limit_ms(timeout))

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Return the first offsets at or after the times (ms) given in place of offsets."""
        self._check_open()
        return self._lookups.times(check_partitions(partitions), _limit_ms(timeout))

    # --- the group and the cluster -------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        """Describe the cluster: brokers, topics, partitions."""
        self._check_open("Handle has been closed")
        return self._lookups.topics(topic, _limit_ms(timeout))

    def cluster_id(self, timeout: float | None = -1) -> str | None:
        """Return the id of the cluster."""
        return self.list_topics(timeout=timeout).cluster_id

    def memberid(self) -> str | None:
        """Return the member id of this consumer; in a classic group, None before it has joined."""
        self._check_open()
        return self._kafka.log_names.member_id or None

    def consumer_group_metadata(self) -> bytes:
        """Return the group metadata for a producer's `send_offsets_to_transaction()`."""
        self._check_open()
        return group_bytes(self._kafka.group_metadata())

    def set_sasl_credentials(self, username: str, password: str) -> None:  # noqa: ARG002
        """Raise an error: the credentials of a consumer cannot be changed.

        Raises:
            KafkaException: Always (`_NOT_IMPLEMENTED`).
        """
        self._check_open()
        reason = f"credentials cannot be changed: create a new consumer for the user {username}"
        raise failure(KafkaError._NOT_IMPLEMENTED, reason)

    # --- closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit stored offsets (with `enable.auto.commit`), leave the group, and disconnect."""
        if self._closed:
            return
        try:
            with raising("Failed to close consumer"):
                if not self._assignment.subscribed:
                    self._offsets.commit_before_revocation(self._assigned)
                self._kafka.close(autocommit=False)
        finally:
            self._closed = True
        self._callbacks.raise_error()

    def __enter__(self) -> Self:
        """Return this consumer, which is closed at the end of the block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _check_open(self, text: str = "Consumer closed") -> None:
        if self._closed:
            raise RuntimeError(text)
        self._changes.finish()


def _wait_ms(timeout: float | None) -> float:
    """Return a timeout in milliseconds; None and negative values become 32 years."""
    if timeout is None:
        return 1e12
    if not isinstance(timeout, int | float):
        msg = f"must be real number, not {type(timeout).__name__}"
        raise TypeError(msg)
    return 1e12 if timeout < 0 else timeout * 1000


def _limit_ms(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else timeout * 1000
