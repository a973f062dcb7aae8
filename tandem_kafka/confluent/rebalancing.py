"""The assignment of partitions: by the group, in callbacks, or by the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
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
from tandem_kafka.confluent.errors import failure, invalid, refusal
from tandem_kafka.confluent.offsets import StoredOffsets
from tandem_kafka.confluent.partitions import Given, Part, as_topic_partition
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka.types import TopicPartition as Key

Callback = Callable[[Any, list[TopicPartition]], object]

#: An offset of -2000 - n means n records before the end.
_TAIL_BASE: Final = -2000
_RESETS: Final = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}


class Rebalances(ConsumerRebalanceListener):
    """Updates `Assigned` for the group and the application.

    If a callback raises an exception, the rebalance continues as if it had returned. The method of
    the consumer in which the callback ran then raises the exception; `call` keeps it until then.
    """

    def __init__(self, shared: Shared, offsets: StoredOffsets, consumer: Any) -> None:
        self._kafka, self._assigned, self._taken = shared.kafka, shared.assigned, shared.taken
        self._clock, self._call = shared.clock, shared.callbacks.run
        self._make = shared.changes.make
        self._offsets, self._consumer = offsets, consumer
        self._callbacks: dict[str, Callback | None] = {}
        #: Inside `on_assign`, its partitions until the application has chosen among them.
        self._offered: frozenset[Key] = frozenset()
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
        self._make(partial(self._assigned.add, keys))
        on_assign = self._callbacks.get("on_assign")
        if on_assign is not None:
            self._offered = frozenset(keys)
            try:
                self._call(on_assign, self._consumer, _plain(keys))
            finally:
                self._offered = frozenset()

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
            self._make(partial(self._forget, keys))

    def _forget(self, tps: Iterable[Key]) -> None:
        """Remove partitions, with what was taken of them."""
        for tp in list(tps):
            part = self._assigned.get(tp)
            if part is not None:
                self._taken.drop(part)
                self._assigned.remove(tp)

    def _rebalanced(self) -> None:
        self.rebalances += 1
        self.rebalanced_ms = self._clock.now_ms()

    # --- the application -----------------------------------------------------------------------

    def assign(self, partitions: list[Given]) -> None:
        """Read exactly these partitions; in a group, it must have assigned them."""
        if self.subscribed:
            self._choose(partitions, among=frozenset(self._assigned.parts))
            return
        targets = self._targets(partitions)
        self._make(partial(self._replace, partitions, targets))

    def incremental_assign(self, partitions: list[Given]) -> None:
        """Also read these partitions."""
        if self.subscribed:
            self._choose(partitions, among=self._offered)
            return
        for each in partitions:
            if self._assigned.get(each.key) is not None:
                reason = f"{_name(each.key)} can't be added: it is already assigned"
                raise failure(KafkaError._CONFLICT, reason)
        self._make(partial(self._add, partitions, self._targets(partitions)))

    def incremental_unassign(self, partitions: list[Given]) -> None:
        """Stop reading these partitions."""
        self._make(partial(self._give_up, [self._known(each) for each in partitions]))

    def unassign(self) -> None:
        """Stop reading all partitions."""
        self._make(self._unassign)

    def _unassign(self) -> None:
        self._give_up(list(self._assigned))

    def _give_up(self, parts: list[Part]) -> None:
        if self.subscribed:
            for part in parts:
                self._deactivate(part, "muted")
            return
        self._offsets.commit_before_revocation(parts)
        self._forget(part.tp for part in parts)
        self._read_assigned()

    def _read_assigned(self) -> None:
        if self._assigned.parts:
            self._kafka.assign(list(self._assigned.parts))
        else:
            self._kafka.unsubscribe()

    def _known(self, partition: Given) -> Part:
        part = self._assigned.get(partition.key)
        if part is None:
            reason = (
                f"{_name(partition.key)} can't be removed: it is not assigned"
                if self._assigned.parts
                else "Can't subtract from empty assignment"
            )
            raise invalid(reason)
        return part

    def _targets(self, partitions: list[Given]) -> list[int | None]:
        """Resolve all offsets, before anything changes."""
        return [self._absolute(each.key, each.offset) for each in partitions]

    def _replace(self, partitions: list[Given], targets: list[int | None]) -> None:
        self._unassign()
        self._add(partitions, targets)

    def _add(self, partitions: list[Given], targets: list[int | None]) -> None:
        for each in partitions:
            self._assigned.add([each.key], each.offset)
        self._read_assigned()
        for each, target in zip(partitions, targets, strict=True):
            self._move(each.key, target, each.leader_epoch)

    def _choose(self, partitions: list[Given], *, among: frozenset[Key]) -> None:
        """Start partitions of the group at the given offsets, and mute the others of `among`."""
        for each in partitions:
            if self._assigned.get(each.key) is None:
                reason = (
                    f"{_name(each.key)} is not assigned by the group; "
                    "call unsubscribe() before you assign it"
                )
                raise failure(KafkaError._STATE, reason)
        omitted = among - {each.key for each in partitions}
        self._make(partial(self._apply, partitions, self._targets(partitions), omitted))
        self._offered = frozenset()

    def _apply(
        self, partitions: list[Given], targets: list[int | None], omitted: frozenset[Key]
    ) -> None:
        for part in self._assigned:
            if part.tp in omitted:
                self._deactivate(part, "muted")
        for each, target in zip(partitions, targets, strict=True):
            part = self._assigned.parts[each.key]
            part.start = each.offset
            if target is not None:
                self._seek(part, target, each)
            if "muted" in part.inactive:
                self._activate(part, "muted")

    # --- one partition -------------------------------------------------------------------------

    def seek(self, part: Part, to: Given) -> None:
        """Continue from an offset, and discard buffered records. The stored offset is kept."""
        target = self._absolute(part.tp, self._sought(to.offset))
        self._make(partial(self._seek, part, target, to))

    def _seek(self, part: Part, target: int | None, to: Given) -> None:
        part.seeks += 1
        self._taken.drop(part)
        part.explicit = self._offsets.stored(part)
        part.last = None
        part.eof_at = OFFSET_INVALID
        part.start = to.offset
        self._move(part.tp, target, to.leader_epoch)
        part.back = None
        if "stopped" in part.inactive:
            self._activate(part, "stopped")

    def sift(self, before: dict[Part, int]) -> None:
        """Drop what was taken of partitions that another caller has sought or removed meanwhile.

        Args:
            before: The partitions and their `seeks` when the taking began.
        """
        for part, seeks in before.items():
            other = self._assigned.get(part.tp)
            if other is None or (other is part and part.seeks != seeks):
                self._make(partial(self._restart, part))

    def _restart(self, part: Part) -> None:
        self._taken.drop(part)
        if part in self._assigned:  # what was dropped may be from behind the seek
            self._move(part.tp, self._absolute(part.tp, part.start), None)

    def pause(self, partitions: list[Given]) -> None:
        """Hand out nothing until `resume`."""
        for part in self._assigned_of(partitions):
            self._make(partial(self._deactivate, part, "paused"))

    def resume(self, partitions: list[Given]) -> None:
        """Return records again."""
        for part in self._assigned_of(partitions):
            self._make(partial(self._activate, part, "paused"))

    def _assigned_of(self, partitions: list[Given]) -> list[Part]:
        parts = [self._assigned.get(each.key) for each in partitions]
        return [part for part in parts if part is not None]

    def stop(self, part: Part) -> None:
        """Return no records until the application seeks, because there is no position."""
        self._kafka.pause(part.tp)
        self._kafka.seek(part.tp, 0)  # a position, so that the error is not raised again
        part.inactive.add("stopped")

    def _deactivate(self, part: Part, reason: str) -> None:
        part.inactive.add(reason)
        self._kafka.pause(part.tp)
        self._rewind(part)

    def rewind(self) -> None:
        """Drop what waits, and let our consumer return it again."""
        for part in self._assigned:
            self._rewind(part)

    def _rewind(self, part: Part) -> None:
        self._taken.drop(part)
        if part.back is not None:
            self._kafka.seek(part.tp, part.back)
            part.back = None

    def _activate(self, part: Part, reason: str) -> None:
        part.inactive.discard(reason)
        if not part.inactive:
            self._kafka.resume(part.tp)

    def _move(self, tp: Key, target: int | None, epoch: int | None) -> None:
        if target is None:
            return
        if target >= 0:
            leader_epoch = -1 if epoch is None else epoch
            self._kafka.seek(tp, OffsetAndMetadata(target, "", leader_epoch))
        elif target == OFFSET_BEGINNING:
            self._kafka.seek_to_beginning(tp)
        elif target == OFFSET_END:
            self._kafka.seek_to_end(tp)

    def _absolute(self, tp: Key, offset: int) -> int | None:
        """Resolve an offset; beginning and end stay symbolic, None means the committed offset."""
        if offset in (OFFSET_INVALID, OFFSET_STORED):
            return None
        if offset <= _TAIL_BASE:
            first = self._kafka.beginning_offsets([tp])[tp]
            return max(first, self._kafka.end_offsets([tp])[tp] + offset - _TAIL_BASE)
        if offset < OFFSET_BEGINNING:
            raise invalid(f"offset {offset} is not allowed")
        return offset

    def _sought(self, offset: int) -> int:
        """Return the target of a seek; without an offset, the one for partitions without any."""
        if offset == OFFSET_INVALID:
            offset = _RESETS.get(self._kafka.config["auto_offset_reset"], OFFSET_STORED)
        if offset == OFFSET_STORED:
            raise refusal(f"Failed to seek to offset {offset}", KafkaError._INVALID_ARG)
        return offset


def _plain(keys: Iterable[Key]) -> list[TopicPartition]:
    return [as_topic_partition(key, None) for key in keys]


def _name(key: Key) -> str:
    return f"{key.topic} [{key.partition}]"


def _escaped(name: str) -> str:
    return name.replace(".", r"\.")
