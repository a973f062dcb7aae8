"""Stored offsets and commits: only stored offsets are committed automatically."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, Message, TopicPartition

from tandem_kafka.confluent.errors import invalid, kafka_error, raising, refusal
from tandem_kafka.confluent.partitions import Part, as_topic_partition, check_partitions
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.errors import KafkaError as OurKafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka.types import TopicPartition as Key

log = client_logger(__name__)

Chosen = dict[Key, OffsetAndMetadata]

#: Timeout of the commit before partitions are revoked.
_FINAL_COMMIT_MS: Final = 5_000


class StoredOffsets:
    """Tracks stored offsets, and commits them."""

    def __init__(self, shared: Shared) -> None:
        self._kafka, self._assigned, self._taken = shared.kafka, shared.assigned, shared.taken
        settings, self._call = shared.settings, shared.callbacks.run
        self._names = settings.log_names
        self._on_commit = settings.callbacks.get("on_commit")
        self.automatic = settings.get("enable.auto.commit", True)
        self.storing = settings.get("enable.auto.offset.store", True)
        self._interval_ms = settings.get("auto.commit.interval.ms", 5_000)
        self._next_ms = shared.clock.now_ms() + self._interval_ms

    # --- stored offsets ------------------------------------------------------------------------

    def stored(self, part: Part) -> OffsetAndMetadata | None:
        """Return the offset that `commit()` without arguments would commit for a partition."""
        return (part.position if self.storing else None) or part.explicit

    def store(self, message: Any, offsets: Any) -> None:
        """Store offsets for the next automatic commit, or commit without arguments.

        Raises:
            KafkaException: Offsets are stored automatically, or a partition is not assigned.
        """
        prefix = "StoreOffsets failed"
        if self.storing:
            raise refusal(prefix, KafkaError._INVALID_ARG)
        given = offsets_of(message, offsets, prefix)
        if not given.keys() <= self._assigned.parts.keys():
            known = {part.tp.topic for part in self._assigned} >= {key.topic for key in given}
            raise refusal(prefix, KafkaError._STATE if known else KafkaError._UNKNOWN_PARTITION)
        for key, offset in given.items():
            self._assigned.parts[key].explicit = offset

    def note_topics(self, parts: Iterable[Part]) -> None:
        """Forget the offsets of topics that were deleted and created again."""
        self._taken.settle()
        for part in parts:
            part.note_topic(self._kafka._topic_id(part.tp))

    def uncommitted(self, parts: Iterable[Part], *, certain: bool = False) -> Chosen:
        """Return the offsets that are stored and not yet sent; if `certain`, not yet committed."""
        parts = list(parts)
        self.note_topics(parts)
        stored = {part: self.stored(part) for part in parts}
        return {
            part.tp: offset
            for part, offset in stored.items()
            if offset is not None
            and (offset != part.sent or (certain and offset != part.committed))
        }

    # --- commits -------------------------------------------------------------------------------

    def commit(
        self, message: Any, offsets: Any, *, asynchronous: bool
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
            raise refusal(prefix, KafkaError._NO_OFFSET)
        with raising(prefix):
            self._kafka._commit_existing(chosen)
        self._mark_committed(chosen)
        if offsets is not None:
            given = sorted(check_partitions(offsets), key=lambda each: each.key)
            return [as_topic_partition(each.key, each.target) for each in given]
        shown = sorted(self._assigned.parts) if everything else chosen
        return [as_topic_partition(key, chosen.get(key)) for key in shown]

    def _commit_async(self, chosen: Chosen) -> None:
        if not chosen:
            self._call_on_commit(KafkaError(KafkaError._NO_OFFSET), {})
            return
        self._mark_sent(chosen)

        def ended(_offsets: Any, error: Any) -> None:
            failed = isinstance(error, BaseException)
            if failed:
                self._unmark_sent(chosen)
            else:
                self._mark_committed({tp: at for tp, at in chosen.items() if self._is_sent(tp, at)})
            self._call_on_commit(kafka_error(error) if failed else None, chosen)

        try:
            with raising("Commit failed"):
                self._kafka.commit_async(chosen, ended)
        except BaseException:
            self._unmark_sent(chosen)
            raise

    def _mark_committed(self, chosen: Chosen) -> None:
        for key, offset in chosen.items():
            part = self._assigned.get(key)
            if part is not None:
                part.sent = part.committed = offset

    def _mark_sent(self, chosen: Chosen) -> None:
        for key, offset in chosen.items():
            part = self._assigned.get(key)
            if part is not None:
                part.sent = offset

    def _unmark_sent(self, chosen: Chosen) -> None:
        """Let the next commit include offsets whose commit failed."""
        for key, offset in chosen.items():
            if self._is_sent(key, offset):
                self._assigned.parts[key].sent = None

    def _is_sent(self, key: Key, offset: OffsetAndMetadata) -> bool:
        """Tell whether this was the last commit of a partition."""
        part = self._assigned.get(key)
        return part is not None and part.sent == offset

    def _call_on_commit(
        self, error: KafkaError | None, chosen: Mapping[Key, OffsetAndMetadata]
    ) -> None:
        if self._on_commit is not None:
            self._call(
                self._on_commit,
                error,
                [as_topic_partition(key, chosen[key], error) for key in sorted(chosen)],
            )

    # --- automatic commits ---------------------------------------------------------------------

    def commit_if_due(self, now_ms: int) -> None:
        """Commit stored offsets if the interval has passed."""
        if not self.automatic or not self._interval_ms or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._interval_ms
        chosen = self.uncommitted(self._assigned)
        if chosen:
            self._commit_async(chosen)

    def commit_before_revocation(self, parts: Iterable[Part]) -> None:
        """Commit the stored offsets of partitions to be revoked; errors go to `on_commit`."""
        chosen = self.uncommitted(parts, certain=True) if self.automatic else {}
        if not chosen:
            return
        try:
            self._kafka._commit_existing(chosen, _FINAL_COMMIT_MS)
        except OurKafkaError as error:
            log.warning(
                "offsets were not committed before partitions were revoked: %s",
                error,
                client=self._names,
            )
            self._call_on_commit(kafka_error(error), chosen)
        else:
            self._mark_committed(chosen)
            self._call_on_commit(None, chosen)


def offsets_of(message: Any, offsets: Any, prefix: str) -> Chosen:
    """Return the offsets to commit for a message or a list of partitions.

    Raises:
        ValueError: Both are given.
        TypeError: An argument has the wrong type.
        KafkaException: The message has an error.
    """
    if message is None:
        return {each.key: each.target for each in check_partitions(offsets) if each.offset >= 0}
    if offsets is not None:
        msg = "message and offsets are mutually exclusive"
        raise ValueError(msg)
    if not isinstance(message, Message):
        msg = f"expected Message, not {type(message).__name__}"
        raise TypeError(msg)
    error = message.error()
    if error is not None:
        raise invalid(f"{prefix}: the message has an error: {error.str()!r}")
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        return {}  # as for a partition without an offset
    epoch = message.leader_epoch()
    return {
        Key(topic, partition): OffsetAndMetadata(offset + 1, "", -1 if epoch is None else epoch)
    }
