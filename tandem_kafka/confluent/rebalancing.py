"""The assignment of partitions: by the group, in callbacks, or by the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tandem_kafka.confluent.codes import Codes
from tandem_kafka.confluent.errors import failure
from tandem_kafka.confluent.offsets import Offsets
from tandem_kafka.confluent.partitions import Assigned, Part
from tandem_kafka.confluent.values import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TAIL_BASE,
    TopicPartition,
)
from tandem_kafka.confluent.waiting import Time
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.consumer.listener import ConsumerRebalanceListener
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka.types import TopicPartition as Key

__all__ = ["Assignment", "check_partitions"]

Callback = Callable[[Any, list[TopicPartition]], object]


class Assignment(ConsumerRebalanceListener):
    """Updates `Assigned` for the group and the application.

    If a callback raises an exception, the rebalance continues as if it had returned. The method of
    the consumer in which the callback ran then raises the exception; `call` keeps it until then.
    """

    def __init__(
        self,
        kafka: KafkaConsumer,
        assigned: Assigned,
        offsets: Offsets,
        call: Callable[..., None],
        consumer: Any,
        time: Time,
    ) -> None:
        self._time = time
        self._kafka = kafka
        self._assigned = assigned
        self._offsets = offsets
        self._call = call
        self._consumer = consumer
        self._callbacks: dict[str, Callback | None] = {}
        self.subscribed = False
        self.rebalances = 0
        self.rebalanced_s = self._time.now_s()

    # --- the group -----------------------------------------------------------------------------

    def subscribe(self, topics: list[str], callbacks: dict[str, Callback | None]) -> None:
        """Subscribe to topic names and patterns (which begin with ^)."""
        patterns = [name for name in topics if name.startswith("^")]
        self._callbacks = callbacks
        if not self.subscribed and self._assigned.parts:
            self.unassign()
        if patterns:
            names = [f"^{_escaped(name)}$" for name in topics if not name.startswith("^")]
            pattern = "|".join(f"(?:{each})" for each in (*patterns, *names))
            self._drop_subscription()
            self._kafka.subscribe(pattern=pattern, listener=self)
        else:
            if self._patterned:
                self._drop_subscription()
            self._kafka.subscribe(topics, listener=self)
        self._patterned, self.subscribed = bool(patterns), True

    _patterned = False

    def _drop_subscription(self) -> None:
        """Unsubscribe first: our consumer cannot switch between names and patterns."""
        if self.subscribed and not self._patterned:
            self.unsubscribe()
        elif self.subscribed:
            self._kafka.unsubscribe()

    def unsubscribe(self) -> None:
        """Give up the subscription and all partitions."""
        if not self.subscribed:
            return
        self._kafka.unsubscribe()
        self._assigned.remove(list(self._assigned.parts))
        self.subscribed = self._patterned = False

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Add partitions assigned by the group."""
        self._rebalanced()
        keys = sorted(assigned)
        for key in keys:
            self._assigned.add(key)
        on_assign = self._callbacks.get("on_assign")
        if on_assign is not None:
            self._call(on_assign, self._consumer, _plain(keys))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Commit stored offsets, and remove partitions revoked by the group."""
        self._remove(revoked, self._callbacks.get("on_revoke"), commit=True)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """Remove partitions that other members may already own."""
        on_lost = self._callbacks.get("on_lost") or self._callbacks.get("on_revoke")
        self._remove(lost, on_lost, commit=False)

    def _remove(self, tps: Iterable[Any], callback: Callback | None, *, commit: bool) -> None:
        self._rebalanced()
        keys = sorted(tps)
        parts = [part for part in map(self._assigned.get, keys) if part is not None]
        if callback is not None:
            self._call(callback, self._consumer, _plain(keys))
        if commit:
            self._offsets.commit_before_revocation(parts)
        self._assigned.remove(keys)

    def _rebalanced(self) -> None:
        self.rebalances += 1
        self.rebalanced_s = self._time.now_s()

    # --- the application -----------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these partitions; in a group, it must have assigned them."""
        if self.subscribed:
            self._choose(partitions, exactly=True)
            return
        self.unassign()
        self._add(partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Also read these partitions."""
        if self.subscribed:
            self._choose(partitions, exactly=False)
            return
        for each in partitions:
            if self._assigned.get(each.key) is not None:
                reason = f"{each.topic} [{each.partition}] can't be added: it is already assigned"
                raise failure(Codes._CONFLICT, reason)
        self._add(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stop reading these partitions."""
        parts = [self._known(each) for each in partitions]
        if self.subscribed:
            for part in parts:
                self._mute(part)
            return
        self._offsets.commit_before_revocation(parts)
        self._assigned.remove([part.tp for part in parts])
        self._kafka.assign(self._assigned.parts)

    def unassign(self) -> None:
        """Stop reading all partitions."""
        if self.subscribed:
            for part in self._assigned:
                self._mute(part)
            return
        if self._assigned.parts:
            self._offsets.commit_before_revocation(self._assigned)
            self._assigned.remove(list(self._assigned.parts))
            self._kafka.unsubscribe()

    def _known(self, partition: TopicPartition) -> Part:
        part = self._assigned.get(partition.key)
        if part is None:
            reason = (
                f"{partition.topic} [{partition.partition}] can't be removed: it is not assigned"
                if self._assigned.parts
                else "Can't subtract from empty assignment"
            )
            raise failure(Codes._INVALID_ARG, reason)
        return part

    def _add(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._assigned.add(each.key, each.offset)
        self._kafka.assign(self._assigned.parts)
        for each in partitions:
            self._start_at(self._assigned.parts[each.key], each.offset, each.leader_epoch)

    def _choose(self, partitions: list[TopicPartition], *, exactly: bool) -> None:
        """Start partitions of the group at the given offsets; if `exactly`, mute all others."""
        for each in partitions:
            if self._assigned.get(each.key) is None:
                reason = (
                    f"{each.topic} [{each.partition}] is not assigned by the group; "
                    "call unsubscribe() before you assign it"
                )
                raise failure(Codes._STATE, reason)
        chosen = {each.key for each in partitions}
        for part in self._assigned:
            if exactly and part.tp not in chosen:
                self._mute(part)
        for each in partitions:
            part = self._assigned.parts[each.key]
            part.start = each.offset
            if each.offset != OFFSET_INVALID:
                self.seek(part, each.offset, each.leader_epoch)
            if part.muted:
                part.muted = False
                self._activate(part)

    # --- one partition -------------------------------------------------------------------------

    def seek(self, part: Part, offset: int, epoch: int | None = None) -> None:
        """Continue from an offset, and discard buffered records. The stored offset is kept."""
        part.seeks += 1
        self._assigned.drop(part)
        part.explicit = self._offsets.stored(part)
        part.last = None
        part.eof_at = OFFSET_INVALID
        self._start_at(part, offset, epoch)
        if part.stopped:
            part.stopped = False
            self._activate(part)

    def seek_again(self, part: Part) -> None:
        """Repeat the last seek: a batch from before it has moved our consumer's position."""
        self._start_at(part, part.start, None)

    def pause(self, part: Part) -> None:
        """Hand out nothing until `resume`."""
        part.paused = True
        self._deactivate(part)

    def resume(self, part: Part) -> None:
        """Return records again."""
        part.paused = False
        self._activate(part)

    def stop(self, part: Part) -> None:
        """Return no records until the application seeks, because there is no position."""
        part.stopped = True
        self._deactivate(part)
        self._kafka.seek(part.tp, 0)  # a position, so that the error is not raised again

    def _mute(self, part: Part) -> None:
        part.muted = True
        self._deactivate(part)

    def _deactivate(self, part: Part) -> None:
        self._assigned.hold(part)
        self._kafka.pause(part.tp)

    def _activate(self, part: Part) -> None:
        if not part.inactive:
            self._assigned.release(part)
            self._kafka.resume(part.tp)

    def _start_at(self, part: Part, offset: int, epoch: int | None) -> None:
        part.start = offset
        target = self._absolute(part.tp, offset)
        if target is None:
            return
        if target >= 0:
            leader_epoch = -1 if epoch is None else epoch
            self._kafka.seek(part.tp, OffsetAndMetadata(target, "", leader_epoch))
        elif target == OFFSET_BEGINNING:
            self._kafka.seek_to_beginning(part.tp)
        elif target == OFFSET_END:
            self._kafka.seek_to_end(part.tp)

    def _absolute(self, tp: Key, offset: int) -> int | None:
        """Resolve an offset; beginning and end stay symbolic, None means the committed offset."""
        if offset in (OFFSET_INVALID, OFFSET_STORED):
            return None
        if offset <= TAIL_BASE:
            first = self._kafka.beginning_offsets([tp])[tp]
            return max(first, self._kafka.end_offsets([tp])[tp] + offset - TAIL_BASE)
        if offset < OFFSET_BEGINNING:
            raise failure(Codes._INVALID_ARG, f"offset {offset} is not allowed")
        return offset


def check_partitions(partitions: Any) -> list[TopicPartition]:
    """Return the partitions of an argument.

    Raises:
        TypeError: It is not a list of `TopicPartition`.
    """
    if not isinstance(partitions, list):
        msg = "requires list of TopicPartition"
        raise TypeError(msg)
    for each in partitions:
        if not isinstance(each, TopicPartition):
            msg = f"expected TopicPartition, not {type(each).__name__}"
            raise TypeError(msg)
    return partitions


def _plain(keys: Iterable[Key]) -> list[TopicPartition]:
    return [TopicPartition(key.topic, key.partition) for key in keys]


def _escaped(name: str) -> str:
    return name.replace(".", r"\.")
