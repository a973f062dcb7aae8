"""`Consumer`: the methods of `confluent_kafka.Consumer` over our `KafkaConsumer`."""

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

_MOST_MESSAGES: Final = 1_000_000


class Consumer:
    """Reads messages one by one or in lists, with librdkafka's names and conventions.

    Args:
        config: Properties by librdkafka's names, and callbacks.
        logger: Taken; this library logs through `logging` under `tandem_kafka`.
        **more: Further properties, and callbacks (`on_commit`, `error_cb`, `stats_cb`, ...).

    Callbacks run inside `poll()`, `consume()`, `unsubscribe()` and `close()`; what they raise is
    raised there.

    Raises:
        KafkaException: A property is unknown, or its value not allowed (`_INVALID_ARG`).
        ValueError: There is no `group.id`.
        TypeError: The configuration is no dict, or a callback not callable.
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
        time, callbacks = Time(kafka), Callbacks()
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
        """Return the next message or event, None when the timeout is over.

        Args:
            timeout: Seconds; None or a negative number waits for ever.

        Raises:
            RuntimeError: The consumer is closed, or another thread is polling.
            KafkaException: The consumer cannot go on.
        """
        # Nothing here but the next record: whatever else there is to do is done every 100 ms.
        run = self._assigned.run
        if run is not None and self._now_ms() < self._reader.serve_ms:
            for record in run.records:
                run.part.last = record
                return message_of(record)
        self._check_open()
        return self._reader.next(_seconds(timeout))

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Return up to so many messages and events, fewer when the timeout is over.

        Raises:
            ValueError: The number is negative or above a million.
            RuntimeError: The consumer is closed, or another thread is polling.
        """
        self._check_open()
        if not 0 <= num_messages <= _MOST_MESSAGES:
            msg = "num_messages must be between 0 and 1000000 (1M)"
            raise ValueError(msg)
        end_ms = self._now_ms() + _seconds(timeout) * 1000
        found: list[Message] = []
        while len(found) < num_messages:
            message = self.poll(max(0.0, end_ms - self._now_ms()) / 1000)
            if message is None:
                break
            found.append(message)
            found += self._reader.beside(num_messages - len(found))
        return found

    # --- the assignment ------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Subscribe to topics; those that begin with ^ are regular expressions.

        Args:
            topics: Replaces what was subscribed before.
            on_assign: Called with this consumer and the partitions that are new; may assign them
                with offsets to begin at.
            on_revoke: Called with partitions before they are given back.
            on_lost: Called with partitions that others may own already, by default `on_revoke`.

        Raises:
            KafkaException: The list is empty or a name not allowed.
            TypeError: Something is of another type.
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
        """Give partitions back and leave the group."""
        self._check_open()
        with raising("Failed to remove subscription"):
            self._assignment.unsubscribe()
        self._callbacks.raise_error()

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, from their offsets where they have one.

        Inside `on_assign` this chooses where to begin; partitions left out are not read.
        """
        self._check_open()
        with raising("Failed to set assignment"):
            self._assignment.assign(check_partitions(partitions))

    def unassign(self) -> None:
        """Read nothing."""
        self._check_open()
        with raising("Failed to remove assignment"):
            self._assignment.unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions too."""
        self._check_open()
        with raising("Incremental assign failed"):
            self._assignment.incremental_assign(check_partitions(partitions))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no longer."""
        self._check_open()
        with raising("Incremental unassign failed"):
            self._assignment.incremental_unassign(check_partitions(partitions))

    def assignment(self) -> list[TopicPartition]:
        """Return what is read now; the offsets are those it was assigned with."""
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
        """Commit a message, offsets, or (without either) what is stored.

        Returns:
            None, or with `asynchronous=False` the partitions with what was committed.

        Raises:
            KafkaException: With `asynchronous=False`, that it failed; `_NO_OFFSET` if there is
                nothing to commit.
        """
        self._check_open()
        found = self._offsets.commit(message, offsets, asynchronous=bool(asynchronous))
        self._callbacks.raise_error()
        return found

    def store_offsets(
        self, message: Message | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Store what is committed next; needs `enable.auto.offset.store` False.

        Raises:
            KafkaException: Offsets are stored by themselves (`_INVALID_ARG`), or a partition is
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
        """Return committed offsets; `OFFSET_INVALID` where there is none."""
        self._check_open()
        return self._lookups.committed(check_partitions(partitions), _milliseconds(timeout))

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the offsets behind the last messages; `OFFSET_INVALID` before the first."""
        self._check_open()
        found = []
        for each in check_partitions(partitions):
            part = self._assigned.get(each.key)
            position = None if part is None else part.position
            told = TopicPartition(each.topic, each.partition)
            if position is not None:
                epoch = position.leader_epoch
                told = TopicPartition(each.topic, each.partition, position.offset, None, epoch)
            found.append(told)
        return found

    def seek(self, partition: TopicPartition) -> None:
        """Go on at the partition's offset, which may be `OFFSET_BEGINNING` and the like.

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
        """Hand out nothing of these; those not assigned are left out."""
        self._each_assigned(partitions, self._assignment.pause, "Failed to pause partitions")

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Hand out messages of these again; those not assigned are left out."""
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
        """Return the first offset and the one behind the last record."""
        self._check_open()
        (each,) = check_partitions([partition])
        if cached:
            return self._lookups.known_watermarks(each)
        return self._lookups.watermarks(each, _milliseconds(timeout))

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Return the first offsets at or after the times (ms) that stand as offsets."""
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
        """Return the id that the group knows this consumer by, None before it has joined."""
        self._check_open()
        return self._kafka.group_metadata().member_id or None

    def consumer_group_metadata(self) -> bytes:
        """Return the membership, for a producer's `send_offsets_to_transaction()`."""
        self._check_open()
        return group_bytes(self._kafka.group_metadata())

    def set_sasl_credentials(self, username: str, password: str) -> None:  # noqa: ARG002
        """Refuse: the credentials of a consumer cannot be changed here.

        Raises:
            KafkaException: Always (`_NOT_IMPLEMENTED`).
        """
        self._check_open()
        reason = f"make a new consumer for the user {username}"
        raise failure(Codes._NOT_IMPLEMENTED, reason)

    # --- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is stored (with `enable.auto.commit`), leave the group and end."""
        if self._closed:
            return
        try:
            if not self._assignment.subscribed:
                self._offsets.commit_before_giving_back(self._assigned)
            self._kafka.close(autocommit=False)
        except OurKafkaError as error:
            raise KafkaException(kafka_error(error)) from error
        finally:
            self._closed = True
            self._assigned.remove(list(self._assigned.parts))
            self._assigned.run = None
        self._callbacks.raise_error()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
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
    """Return a timeout in seconds; None and negative ones are longer than any program runs."""
    if timeout is None:
        return 1e9
    if not isinstance(timeout, int | float):
        msg = f"must be real number, not {type(timeout).__name__}"
        raise TypeError(msg)
    return 1e9 if timeout < 0 else float(timeout)


def _milliseconds(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else timeout * 1000
