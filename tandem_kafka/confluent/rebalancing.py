"""The assignment of partitions: by the group, in callbacks, or by the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    TopicPartition,
)

from tandem_kafka import ConsumerRebalanceListener
from tandem_kafka.confluent.errors import failure, words
from tandem_kafka.confluent.offsets import Offsets
from tandem_kafka.confluent.partitions import Given, Part, described
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka.types import TopicPartition as Key

__all__ = ["Assignment", "Callback"]

Callback = Callable[[Any, list[TopicPartition]], object]

#: An offset of -2000 - n means n records before the end.
_TAIL_BASE: Final = -2000
_RESETS: Final = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}


class Assignment(ConsumerRebalanceListener):
    """Updates `Assigned` for the group and the application.

    If a callback raises an exception, the rebalance continues as if it had returned. The method of
    the consumer in which the callback ran then raises the exception; `call` keeps it until then.
    """

    def __init__(self, shared: Shared, offsets: Offsets, consumer: Any) -> None:
        self._kafka, self._assigned, self._taken = shared.kafka, shared.assigned, shared.taken
        self._clock, self._call = shared.clock, shared.callbacks.run
        self._offsets, self._consumer = offsets, consumer
        self._callbacks: dict[str, Callback | None] = {}
        self.subscribed = False
        self.rebalances = 0
        self.rebalanced_ms = self._clock.now_ms()

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
        self._forget(list(self._assigned.parts))
        self.subscribed = self._patterned = False

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Add partitions assigned by the group."""
        self._rebalanced()
        self._taken.settle()
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
        try:
            if callback is not None:
                self._call(callback, self._consumer, _plain(keys))
            if commit:
                self._offsets.commit_before_revocation(parts)
        finally:  # also after Ctrl-C: our consumer does not call this again
            self._forget(keys)

    def _forget(self, tps: Iterable[Key]) -> None:
        """Remove partitions, with what was taken of them."""
        gone = list(tps)
        self._taken.drop(*gone)
        self._assigned.remove(gone)

    def _rebalanced(self) -> None:
        self.rebalances += 1
        self.rebalanced_ms = self._clock.now_ms()

    # --- the application -----------------------------------------------------------------------

    def assign(self, partitions: list[Given]) -> None:
        """Read exactly these partitions; in a group, it must have assigned them."""
        if self.subscribed:
            self._choose(partitions, exactly=True)
            return
        self.unassign()
        self._add(partitions)

    def incremental_assign(self, partitions: list[Given]) -> None:
        """Also read these partitions."""
        if self.subscribed:
            self._choose(partitions, exactly=False)
            return
        for each in partitions:
            if self._assigned.get(each.key) is not None:
                reason = f"{_name(each.key)} can't be added: it is already assigned"
                raise failure(KafkaError._CONFLICT, reason)
        self._add(partitions)

    def incremental_unassign(self, partitions: list[Given]) -> None:
        """Stop reading these partitions."""
        parts = [self._known(each) for each in partitions]
        if self.subscribed:
            for part in parts:
                self._deactivate(part, "muted")
            return
        self._offsets.commit_before_revocation(parts)
        self._forget([part.tp for part in parts])
        self._kafka.assign(list(self._assigned.parts))

    def unassign(self) -> None:
        """Stop reading all partitions."""
        if self.subscribed:
            for part in self._assigned:
                self._deactivate(part, "muted")
            return
        if self._assigned.parts:
            self._offsets.commit_before_revocation(self._assigned)
            self._forget(list(self._assigned.parts))
            self._kafka.unsubscribe()

    def _known(self, partition: Given) -> Part:
        part = self._assigned.get(partition.key)
        if part is None:
            reason = (
                f"{_name(partition.key)} can't be removed: it is not assigned"
                if self._assigned.parts
                else "Can't subtract from empty assignment"
            )
            raise failure(KafkaError._INVALID_ARG, reason)
        return part

    def _add(self, partitions: list[Given]) -> None:
        for each in partitions:
            self._assigned.add(each.key, each.offset)
        self._kafka.assign(list(self._assigned.parts))
        for each in partitions:
            self._start_at(self._assigned.parts[each.key], each.offset, each.leader_epoch)

    def _choose(self, partitions: list[Given], *, exactly: bool) -> None:
        """Start partitions of the group at the given offsets; if `exactly`, mute all others."""
        for each in partitions:
            if self._assigned.get(each.key) is None:
                reason = (
                    f"{_name(each.key)} is not assigned by the group; "
                    "call unsubscribe() before you assign it"
                )
                raise failure(KafkaError._STATE, reason)
        chosen = {each.key for each in partitions}
        for part in self._assigned:
            if exactly and part.tp not in chosen:
                self._deactivate(part, "muted")
        for each in partitions:
            part = self._assigned.parts[each.key]
            part.start = each.offset
            if each.offset not in (OFFSET_INVALID, OFFSET_STORED):
                self.seek(part, each.offset, each.leader_epoch)
            if "muted" in part.inactive:
                self._activate(part, "muted")

    # --- one partition -------------------------------------------------------------------------

    def seek(self, part: Part, offset: int, epoch: int | None = None) -> None:
        """Continue from an offset, and discard buffered records. The stored offset is kept."""
        target = self._absolute(part.tp, offset)  # if this raises, nothing has changed
        part.seeks += 1
        self._taken.drop(part.tp)
        part.explicit = self._offsets.stored(part)
        part.last = None
        part.eof_at = OFFSET_INVALID
        part.start = offset
        self._move(part, target, epoch)
        if "stopped" in part.inactive:
            self._activate(part, "stopped")

    def sift(self, before: dict[Part, int]) -> None:
        """Drop what was taken of partitions that another caller has sought or removed meanwhile.

        Args:
            before: The partitions and their `seeks` when the taking began.
        """
        now = {part: self._assigned.get(part.tp) for part in before}
        removed = [part.tp for part, other in now.items() if other is None]
        sought = [
            part for part, other in now.items() if other is part and part.seeks != before[part]
        ]
        if removed or sought:
            self._taken.drop(*removed, *(part.tp for part in sought))
        for part in sought:
            self._start_at(part, part.start, None)  # what was dropped may be from behind the seek

    def pause(self, part: Part) -> None:
        """Hand out nothing until `resume`."""
        self._deactivate(part, "paused")

    def resume(self, part: Part) -> None:
        """Return records again."""
        self._activate(part, "paused")

    def stop(self, part: Part) -> None:
        """Return no records until the application seeks, because there is no position."""
        self._kafka.pause(part.tp)
        self._kafka.seek(part.tp, 0)  # a position, so that the error is not raised again
        part.inactive.add("stopped")

    def _deactivate(self, part: Part, reason: str) -> None:
        part.inactive.add(reason)
        self._kafka.pause(part.tp)
        self.rewind(part)

    def rewind(self, part: Part) -> None:
        """Drop what waits of a partition, and let our consumer return it again."""
        first = self._taken.first_of(part)
        if first is not None:
            self._kafka.seek(part.tp, first)
        self._taken.drop(part.tp)

    def _activate(self, part: Part, reason: str) -> None:
        part.inactive.discard(reason)
        if not part.inactive:
            self._kafka.resume(part.tp)

    def _start_at(self, part: Part, offset: int, epoch: int | None) -> None:
        part.start = offset
        self._move(part, self._absolute(part.tp, offset), epoch)

    def _move(self, part: Part, target: int | None, epoch: int | None) -> None:
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
        if offset <= _TAIL_BASE:
            first = self._kafka.beginning_offsets([tp])[tp]
            return max(first, self._kafka.end_offsets([tp])[tp] + offset - _TAIL_BASE)
        if offset < OFFSET_BEGINNING:
            raise failure(KafkaError._INVALID_ARG, f"offset {offset} is not allowed")
        return offset

    def sought(self, offset: int) -> int:
        """Return the target of a seek; without an offset, the one for partitions without any.

        Raises:
            KafkaException: The offset is not allowed.
        """
        if offset == OFFSET_INVALID:
            offset = _RESETS.get(self._kafka.config["auto_offset_reset"], OFFSET_STORED)
        if offset == OFFSET_STORED:
            code = KafkaError._INVALID_ARG
            raise failure(code, f"Failed to seek to offset {offset}: {words(code)}")
        return offset


def _plain(keys: Iterable[Key]) -> list[TopicPartition]:
    return [described(key, None) for key in keys]


def _name(key: Key) -> str:
    return f"{key.topic} [{key.partition}]"


def _escaped(name: str) -> str:
    return name.replace(".", r"\.")
