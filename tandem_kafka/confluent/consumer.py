"""`Consumer`: the methods of `confluent_kafka.Consumer`, implemented with `KafkaConsumer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from tandem_kafka.confluent.codes import Codes
from tandem_kafka.confluent.configuration import Settings, settings_from
from tandem_kafka.confluent.errors import KafkaError, KafkaException, failure, kafka_error
from tandem_kafka.confluent.events import Events
from tandem_kafka.confluent.lookups import ClusterMetadata, Lookups, group_bytes, raising
from tandem_kafka.confluent.offsets import Offsets
from tandem_kafka.confluent.partitions import Assigned, Part
from tandem_kafka.confluent.reader import Callbacks, Reader
from tandem_kafka.confluent.rebalancing import Assignment, Callback, check_partitions
from tandem_kafka.confluent.statistics import Statistics
from tandem_kafka.confluent.values import (
    OFFSET_INVALID,
    OFFSET_STORED,
    Message,
    TopicPartition,
    message_of,
)
from tandem_kafka.confluent.waiting import Time
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError as OurKafkaError

__all__ = ["Consumer"]

_MAX_MESSAGES: Final = 1_000_000


class Consumer:
    """Reads messages singly or in lists, with librdkafka's names and conventions.

    Args:
        config: librdkafka properties and callbacks.
        logger: Accepted and ignored; this library logs to Python's logger `tandem_kafka`.
        **more: More properties and callbacks (`on_commit`, `error_cb`, `stats_cb`, ...).

    Callbacks run inside `poll()`, `consume()`, `unsubscribe()` and `close()`; these methods raise
    the exceptions of callbacks.

    Raises:
        KafkaException: A property is unknown, or its value is not allowed (`_INVALID_ARG`).
        ValueError: `group.id` is missing.
        TypeError: The configuration is not a dict, or a callback is not callable.
    """

    def __init__(self, config: Mapping[str, Any], *, logger: Any = None, **more: Any) -> None:
        settings = settings_from(config, {**more, "logger": logger})
        if settings.options.get("group_id") == "":
            settings.options["group_id"] = None
        try:
            self._kafka = KafkaConsumer(**settings.options)
        except OurKafkaError as error:
            reason = f"Failed to create consumer: {error}"
            raise KafkaException(KafkaError(Codes._INVALID_ARG, reason)) from error
        self._begin(settings)

    def _begin(self, settings: Settings) -> None:
        kafka, assigned = self._kafka, Assigned()
        time, callbacks = Time(kafka), Callbacks(settings.log_names)
        self._closed = False
        self._assigned = assigned
        self._callbacks = callbacks
        self._now_ms = time.now_ms
        self._offsets = Offsets(kafka, assigned, settings, callbacks.run, time)
        self._assignment = Assignment(kafka, assigned, self._offsets, callbacks.run, self, time)
        self._events = Events(kafka, assigned, self._assignment, settings, callbacks.run, time)
        self._lookups = Lookups(kafka, assigned, time)
        statistics = Statistics(kafka, assigned, self._assignment, self._offsets, settings, time)
        self._reader = Reader(
            kafka,
            assigned,
            self._assignment,
            self._events,
            self._offsets,
            statistics,
            callbacks,
            time,
        )

    # --- reading -------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Message | None:
        """Return the next message or event, or None after the timeout.

        Args:
            timeout: Seconds; None or a negative number waits forever.

        Raises:
            RuntimeError: The consumer is closed, or another thread is polling.
            KafkaException: The consumer cannot continue.
        """
        # Fast path: return the next record. All other work is done every 100 ms.
        run = self._assigned.run
        if run is not None and self._now_ms() < self._reader.serve_ms:
            for record in run.records:
                run.part.last = record
                return message_of(record)
        self._check_open()
        return self._reader.next(_seconds(timeout))

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Return up to `num_messages` messages and events; fewer after the timeout.

        Raises:
            ValueError: `num_messages` is negative or above a million.
            RuntimeError: The consumer is closed, or another thread is polling.
        """
        self._check_open()
        if not 0 <= num_messages <= _MAX_MESSAGES:
            msg = "num_messages must be between 0 and 1000000 (1M)"
            raise ValueError(msg)
        end_ms = self._now_ms() + _seconds(timeout) * 1000
        found: list[Message] = []
        while len(found) < num_messages:
            message = self.poll(max(0.0, end_ms - self._now_ms()) / 1000)
            if message is None:
                break
            found.append(message)
            found += self._reader.more(num_messages - len(found))
        return found

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
            words = KafkaError(Codes._INVALID_ARG).str()
            raise failure(Codes._INVALID_ARG, f"Failed to set subscription: {words}")
        with raising("Failed to set subscription"):
            self._assignment.subscribe(topics, callbacks)
        self._events.subscribed(topics)
        self._callbacks.raise_error()

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        self._check_open()
        with raising("Failed to remove subscription"):
            self._assignment.unsubscribe()
        self._callbacks.raise_error()

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, starting from their offsets if set.

        Inside `on_assign`, this chooses the offsets to start from; omitted partitions are not read.
        """
        self._check_open()
        with raising("Failed to set assignment"):
            self._assignment.assign(check_partitions(partitions))

    def unassign(self) -> None:
        """Stop reading all partitions."""
        self._check_open()
        with raising("Failed to remove assignment"):
            self._assignment.unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Also read these partitions."""
        self._check_open()
        with raising("Incremental assign failed"):
            self._assignment.incremental_assign(check_partitions(partitions))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions."""
        self._check_open()
        with raising("Incremental unassign failed"):
            self._assignment.incremental_unassign(check_partitions(partitions))

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read, with the offsets they were assigned with."""
        self._check_open()
        return [
            TopicPartition(
                part.tp.topic,
                part.tp.partition,
                OFFSET_STORED if part.start == OFFSET_INVALID else part.start,
            )
            for part in sorted(self._assigned, key=lambda part: part.tp)
            if not part.muted
        ]

    # --- offsets -------------------------------------------------------------------------------

    def commit(
        self,
        message: Message | None = None,
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
        self, message: Message | None = None, offsets: list[TopicPartition] | None = None
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
        return self._lookups.committed(check_partitions(partitions), _milliseconds(timeout))

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return offsets after the last returned messages; `OFFSET_INVALID` before the first."""
        self._check_open()
        found = []
        for each in check_partitions(partitions):
            part = self._assigned.get(each.key)
            position = None if part is None else part.position
            result = TopicPartition(each.topic, each.partition)
            if position is not None:
                epoch = position.leader_epoch
                result = TopicPartition(each.topic, each.partition, position.offset, None, epoch)
            found.append(result)
        return found

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
            known = any(other.tp.topic == each.topic for other in self._assigned)
            code = Codes._STATE if known else Codes._UNKNOWN_PARTITION
            raise failure(code, f"{what}: {KafkaError(code).str()}")
        with raising(what):
            self._assignment.seek(part, each.offset, each.leader_epoch)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Return no messages of these partitions; partitions that are not assigned are ignored."""
        self._each_assigned(partitions, self._assignment.pause, "Failed to pause partitions")

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Return messages of these partitions again; ignores partitions that are not assigned."""
        self._each_assigned(partitions, self._assignment.resume, "Failed to resume partitions")

    def _each_assigned(
        self, partitions: list[TopicPartition], do: Callable[[Part], None], what: str
    ) -> None:
        self._check_open()
        for each in check_partitions(partitions):
            part = self._assigned.get(each.key)
            if part is not None:
                with raising(what):
                    do(part)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset and the end offset of a partition."""
        self._check_open()
        (each,) = check_partitions([partition])
        if cached:
            return self._lookups.known_watermarks(each)
        return self._lookups.watermarks(each, _milliseconds(timeout))

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Return the first offsets at or after the times (ms) given in place of offsets."""
        self._check_open()
        return self._lookups.times(check_partitions(partitions), _milliseconds(timeout))

    # --- the group and the cluster -------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        """Describe the cluster: brokers, topics, partitions."""
        self._check_open("Handle has been closed")
        return self._lookups.topics(topic, _milliseconds(timeout))

    def cluster_id(self, timeout: float | None = -1) -> str | None:
        """Return the id of the cluster."""
        return self.list_topics(timeout=timeout).cluster_id

    def memberid(self) -> str | None:
        """Return the member id of this consumer, or None before it has joined."""
        self._check_open()
        return self._kafka.group_metadata().member_id or None

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
        raise failure(Codes._NOT_IMPLEMENTED, reason)

    # --- closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit stored offsets (with `enable.auto.commit`), leave the group, and disconnect."""
        if self._closed:
            return
        try:
            if not self._assignment.subscribed:
                self._offsets.commit_before_revocation(self._assigned)
            self._kafka.close(autocommit=False)
        except OurKafkaError as error:
            raise KafkaException(kafka_error(error)) from error
        finally:
            self._closed = True
            self._assigned.remove(list(self._assigned.parts))
            self._assigned.run = None
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


def _seconds(timeout: float | None) -> float:
    """Return a timeout in seconds; None and negative values become 32 years."""
    if timeout is None:
        return 1e9
    if not isinstance(timeout, int | float):
        msg = f"must be real number, not {type(timeout).__name__}"
        raise TypeError(msg)
    return 1e9 if timeout < 0 else float(timeout)


def _milliseconds(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else timeout * 1000
