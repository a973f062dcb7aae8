"""The range of offsets to read of each partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.tables.times import moment_ms, time_ms
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka.consumer.consumer import KafkaConsumer

#: Where to begin or to end: a word, an offset, or a time.
Where: TypeAlias = str | int | datetime | timedelta | Mapping[TopicPartition, int]

_BEGINNING: Final = frozenset({"beginning", "earliest"})
_END: Final = frozenset({"end", "latest", "now"})
_OFFSET: Final = re.compile(r"-?\d+", re.ASCII)
#: kcat's notation for a timestamp.
_BY_TIME: Final = "s@"


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets by partition.

    Attributes:
        first: The first offset to read.
        end: The first offset not to read.
    """

    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]

    @property
    def size(self) -> int:
        """The number of offsets; records are fewer in compacted topics and with transactions."""
        return sum(max(0, self.end[tp] - first) for tp, first in self.first.items())


class Bounds:
    """Finds offsets within what partitions have at this moment.

    Args:
        consumer: Asks the cluster.
        partitions: The partitions.
        now_ms: The present time, in milliseconds since the Unix epoch.
        note: Called with a line for the user if an offset is beyond the end.
    """

    def __init__(
        self,
        consumer: KafkaConsumer,
        partitions: Sequence[TopicPartition],
        now_ms: int,
        note: Callable[[str], object],
    ) -> None:
        self._consumer = consumer
        self._partitions = partitions
        self._now_ms = now_ms
        self._note = note
        # Invariant: in this order. A partition that is truncated in between is read to its end.
        self._beginnings = consumer.beginning_offsets(partitions)
        self._ends = consumer.end_offsets(partitions)

    def span(self, start: Where, end: Where) -> Span:
        """Return the offsets between two bounds.

        Raises:
            InvalidArgumentError: A bound is neither a word, an offset nor a time.
        """
        return Span(self.at("start", start), self.at("end", end))

    def at(self, name: str, where: Where) -> dict[TopicPartition, int]:
        """Return the offset of each partition that a bound stands for; it exists, or is the end.

        Args:
            name: What the bound is called in an error.
            where: `beginning` or `earliest`; `end`, `latest` or `now`; `committed`: the committed
                offsets of the consumer's group, the beginning where there is none; an offset, or
                -N for N before the end; a time, as `time_ms()` reads it, after `s@` if it is a
                number; a datetime; a timedelta before now; offsets by partition.

        Raises:
            InvalidArgumentError: It is none of these.
        """
        if isinstance(where, str):
            where = self._parsed(name, where)
        if isinstance(where, timedelta):
            where = _Time(self._now_ms - where // timedelta(milliseconds=1))
        if isinstance(where, datetime):
            where = _Time(moment_ms(where))
        if isinstance(where, _Time):
            return self._by_time(where)
        if isinstance(where, Mapping):
            return self._limited(name, where, self._chosen(name, where))
        if isinstance(where, int):
            asked = {tp: end + where if where < 0 else where for tp, end in self._ends.items()}
            return self._limited(name, where, asked)
        raise _invalid(name, where)

    def _parsed(self, name: str, text: str) -> int | _Time | Mapping[TopicPartition, int]:
        word = text.lower()
        if word in _BEGINNING:
            return self._beginnings
        if word in _END:
            return self._ends
        if word == "committed":
            committed = {tp: self._consumer.committed(tp) for tp in self._partitions}
            return {tp: self._beginnings[tp] if at is None else at for tp, at in committed.items()}
        if _OFFSET.fullmatch(text):
            # "-0" is the end.
            return int(text) if int(text) or text[0] != "-" else self._ends
        try:
            return _Time(time_ms(text.removeprefix(_BY_TIME), self._now_ms))
        except ValueError:
            raise _invalid(name, text) from None

    def _by_time(self, time: _Time) -> dict[TopicPartition, int]:
        """Return the offset of the first record from a time on."""
        found = self._consumer.offsets_for_times(dict.fromkeys(self._partitions, max(0, time)))
        return {
            tp: end if (at := found[tp]) is None else at.offset for tp, end in self._ends.items()
        }

    def _chosen(self, name: str, where: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        missing = [tp for tp in self._partitions if tp not in where]
        if missing:
            tp = missing[0]
            msg = f"{name} has no offset of {tp.topic}-{tp.partition}; name all that are read"
            raise InvalidArgumentError(msg)
        return {tp: where[tp] for tp in self._partitions}

    def _limited(
        self, name: str, where: Where, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return offsets that exist, and note those that do not."""
        beyond = {tp: self._ends[tp] for tp, at in asked.items() if at > self._ends[tp]}
        if beyond:
            given = "" if isinstance(where, Mapping) else f" {where}"
            self._note(f"{name}{given} is beyond the end: {_listed(beyond)}; their ends are used")
        gone = {tp: self._beginnings[tp] for tp, at in asked.items() if at < self._beginnings[tp]}
        # 0 and numbers before the end are the beginning, wherever that is.
        if gone and (isinstance(where, Mapping) or (isinstance(where, int) and where > 0)):
            self._note(f"{name} is before the first record that is still there: {_listed(gone)}")
        return {tp: min(max(self._beginnings[tp], at), self._ends[tp]) for tp, at in asked.items()}


def _listed(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition} at {at}" for tp, at in sorted(offsets.items()))


class _Time(int):
    """Milliseconds since the Unix epoch."""


def _invalid(name: str, where: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} {where!r} is no position: write beginning, end, committed, an offset, -N (N "
        "before the end) or a time: s@TIME, -15m (ago), 2026-05-01T12:00 (UTC)"
    )
