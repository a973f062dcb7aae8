"""Stored offsets and commits: only stored offsets are committed automatically."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tandem_kafka.confluent.codes import Codes
from tandem_kafka.confluent.configuration import Settings
from tandem_kafka.confluent.errors import KafkaError, KafkaException, failure, kafka_error
from tandem_kafka.confluent.partitions import Assigned, Part
from tandem_kafka.confluent.values import OFFSET_INVALID, Message, TopicPartition
from tandem_kafka.confluent.waiting import Time
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError as OurKafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka.types import TopicPartition as Key

__all__ = ["Offsets"]

log = client_logger(__name__)

Chosen = dict[Key, OffsetAndMetadata]

#: Timeout of the commit before partitions are revoked.
_FINAL_COMMIT_MS: Final = 5_000


class Offsets:
    """Tracks stored offsets, and commits them."""

    def __init__(
        self,
        kafka: KafkaConsumer,
        assigned: Assigned,
        settings: Settings,
        call: Callable[..., None],
        time: Time,
    ) -> None:
        self._kafka = kafka
        self._assigned = assigned
        self._call = call
        self._names = settings.log_names
        self._on_commit = settings.callbacks.get("on_commit")
        self.automatic = settings.get("enable.auto.commit", True)
        self.storing = settings.get("enable.auto.offset.store", True)
        self._interval_s = settings.get("auto.commit.interval.ms", 5_000) / 1000
        self._next_s = time.now_s() + self._interval_s

    # --- stored offsets ------------------------------------------------------------------------

    def stored(self, part: Part) -> OffsetAndMetadata | None:
        """Return the offset that `commit()` without arguments would commit for a partition."""
        return (part.position if self.storing else None) or part.explicit

    def store(self, message: Message | None, offsets: list[TopicPartition] | None) -> None:
        """Store offsets for the next automatic commit, or commit without arguments.

        Raises:
            KafkaException: Offsets are stored automatically, or a partition is not assigned.
        """
        if self.storing:
            raise failure(Codes._INVALID_ARG, f"StoreOffsets failed: {_words(Codes._INVALID_ARG)}")
        given = offsets_of(message, offsets, "StoreOffsets failed")
        if not given.keys() <= self._assigned.parts.keys():
            known = {part.tp.topic for part in self._assigned} >= {key.topic for key in given}
            code = Codes._STATE if known else Codes._UNKNOWN_PARTITION
            raise failure(code, f"StoreOffsets failed: {_words(code)}")
        for key, offset in given.items():
            self._assigned.parts[key].explicit = offset

    def uncommitted(self, parts: Iterable[Part]) -> Chosen:
        """Return the offsets that are stored and not yet committed."""
        found: Chosen = {}
        for part in parts:
            stored = self.stored(part)
            if stored is not None and stored != part.committed:
                found[part.tp] = stored
        return found

    # --- commits -------------------------------------------------------------------------------

    def commit(
        self,
        message: Message | None,
        offsets: list[TopicPartition] | None,
        *,
        asynchronous: bool,
    ) -> list[TopicPartition] | None:
        """Commit the given offsets, or the stored ones."""
        everything = message is None and offsets is None
        prefix = "Commit failed"
        chosen = (
            self.uncommitted(self._assigned) if everything else offsets_of(message, offsets, prefix)
        )
        if asynchronous:
            self._commit_async(chosen)
            return None
        if not chosen:
            raise failure(Codes._NO_OFFSET, f"{prefix}: {_words(Codes._NO_OFFSET)}")
        self._commit_sync(chosen, None, prefix)
        shown = dict.fromkeys(sorted(self._assigned.parts)) if everything else dict(chosen)
        return [_partition(key, chosen.get(key)) for key in shown]

    def _commit_sync(self, chosen: Chosen, timeout_ms: float | None, prefix: str) -> None:
        try:
            self._kafka.commit(chosen, timeout_ms)
        except OurKafkaError as error:
            found = kafka_error(error)
            reason = f"{prefix}: {found.str()}"
            raise KafkaException(
                KafkaError(found.code(), reason, found.fatal(), found.retriable())
            ) from error
        self._mark_committed(chosen)

    def _commit_async(self, chosen: Chosen) -> None:
        if not chosen:
            self._call_on_commit(KafkaError(Codes._NO_OFFSET), [])
            return
        self._mark_committed(chosen)

        def ended(_offsets: Any, error: Any) -> None:
            if isinstance(error, BaseException):
                self._unmark_committed(chosen)
                self._call_on_commit(kafka_error(error), _partitions(chosen, kafka_error(error)))
            else:
                self._call_on_commit(None, _partitions(chosen, None))

        try:
            self._kafka.commit_async(chosen, ended)
        except OurKafkaError as error:
            self._unmark_committed(chosen)
            raise KafkaException(kafka_error(error)) from error

    def _mark_committed(self, chosen: Chosen) -> None:
        for key, offset in chosen.items():
            part = self._assigned.get(key)
            if part is not None:
                part.committed = offset

    def _unmark_committed(self, chosen: Chosen) -> None:
        """Let the next commit include offsets whose commit failed."""
        for key, offset in chosen.items():
            part = self._assigned.get(key)
            if part is not None and part.committed == offset:
                part.committed = None

    def _call_on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if self._on_commit is not None:
            self._call(self._on_commit, error, partitions)

    # --- automatic commits ---------------------------------------------------------------------

    def commit_if_due(self, now_s: float) -> None:
        """Commit stored offsets if the interval has passed."""
        if not self.automatic or not self._interval_s or now_s < self._next_s:
            return
        self._next_s = now_s + self._interval_s
        chosen = self.uncommitted(self._assigned)
        if chosen:
            self._commit_async(chosen)

    def commit_before_revocation(self, parts: Iterable[Part]) -> None:
        """Commit the stored offsets of partitions to be revoked; errors go to `on_commit`."""
        chosen = self.uncommitted(parts) if self.automatic else {}
        if not chosen:
            return
        try:
            self._kafka.commit(chosen, _FINAL_COMMIT_MS)
        except OurKafkaError as error:
            log.warning(
                "offsets were not committed before partitions were revoked: %s",
                error,
                client=self._names,
            )
            self._call_on_commit(kafka_error(error), _partitions(chosen, kafka_error(error)))
        else:
            self._mark_committed(chosen)
            self._call_on_commit(None, _partitions(chosen, None))


def offsets_of(
    message: Message | None, offsets: list[TopicPartition] | None, prefix: str
) -> Chosen:
    """Return the offsets to commit for a message or a list of partitions.

    Raises:
        ValueError: Both are given.
        TypeError: An argument has the wrong type.
        KafkaException: The message is an event.
    """
    if message is not None:
        return _offsets_of_message(message, offsets, prefix)
    if not isinstance(offsets, list):
        msg = "requires list of TopicPartition"
        raise TypeError(msg)
    found: Chosen = {}
    for each in offsets:
        if not isinstance(each, TopicPartition):
            msg = "expected TopicPartition"
            raise TypeError(msg)
        if each.offset >= 0:
            epoch = -1 if each.leader_epoch is None else each.leader_epoch
            found[each.key] = OffsetAndMetadata(each.offset, each.metadata or "", epoch)
    return found


def _offsets_of_message(message: Any, offsets: Any, prefix: str) -> Chosen:
    if offsets is not None:
        msg = "message and offsets are mutually exclusive"
        raise ValueError(msg)
    if not isinstance(message, Message):
        msg = f"expected Message, not {type(message).__name__}"
        raise TypeError(msg)
    topic, partition = message.topic(), message.partition()
    if message.error() is not None or topic is None or partition is None:
        raise failure(Codes._INVALID_ARG, f"{prefix}: the message is an error, not a record")
    epoch = message.leader_epoch()
    key = Key(topic, partition)
    offset = (message.offset() or 0) + 1
    return {key: OffsetAndMetadata(offset, "", -1 if epoch is None else epoch)}


def _words(code: int) -> str:
    return KafkaError(code).str()


def _partition(key: Key, offset: OffsetAndMetadata | None) -> TopicPartition:
    if offset is None:
        return TopicPartition(key.topic, key.partition, OFFSET_INVALID)
    metadata = offset.metadata or None
    return TopicPartition(key.topic, key.partition, offset.offset, metadata, offset.leader_epoch)


def _partitions(
    chosen: Mapping[Key, OffsetAndMetadata], error: KafkaError | None
) -> list[TopicPartition]:
    found = [_partition(key, chosen[key]) for key in sorted(chosen)]
    for each in found:
        each.error = error
    return found
