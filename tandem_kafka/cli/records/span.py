"""The range of offsets to read of each partition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from tandem_kafka.cli.failures import CommandError
from tandem_kafka.cli.times import time_ms
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer


_WORDS: Final = {
    "beginning": "earliest",
    "earliest": "earliest",
    "end": "latest",
    "latest": "latest",
}
_OFFSET: Final = re.compile(r"-?\d+", re.ASCII)
#: kcat's notation for a timestamp.
_BY_TIME: Final = "s@"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where to begin and to end, as it was written.

    Attributes:
        start: `beginning`, `end`, an offset, `-N` for N before the end, or `s@TIME`.
        until: A time; records from then on are left out. None reads to the end.
    """

    start: str = "beginning"
    until: str | None = None


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


def find_span(
    consumer: KafkaConsumer, partitions: Sequence[TopicPartition], bounds: Bounds, now_ms: int
) -> Span:
    """Return the offsets between two bounds, which exist at this moment.

    Raises:
        CommandError: A bound is neither an offset nor a time.
    """
    first = starts_at(consumer, partitions, bounds.start, now_ms)
    ends = consumer.end_offsets(partitions)
    if bounds.until is not None:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, time_ms(bounds.until, now_ms)))
        ends = {tp: at.offset if (at := found[tp]) is not None else ends[tp] for tp in partitions}
    return Span(first, ends)


def starts_at(
    consumer: KafkaConsumer,
    partitions: Sequence[TopicPartition],
    start: str,
    now_ms: int,
    flag: str = "-o",
) -> dict[TopicPartition, int]:
    """Return the offset of each partition that a bound names; it exists, or is the end.

    `flag` is named in an error.

    Raises:
        CommandError: The bound is neither a word, an offset nor a time.
    """
    beginnings, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    word = _WORDS.get(start.lower())
    if word is not None:
        return beginnings if word == "earliest" else ends
    if start.startswith(_BY_TIME):
        at_ms = time_ms(start.removeprefix(_BY_TIME), now_ms)
        found = consumer.offsets_for_times(dict.fromkeys(partitions, at_ms))
        return {tp: at.offset if (at := found[tp]) is not None else ends[tp] for tp in partitions}
    if not _OFFSET.fullmatch(start):
        raise CommandError(
            f"{flag} {start}: write beginning, end, an offset, -N (N before the end) or s@TIME",
            usage=True,
        )
    number = int(start)
    asked = {tp: ends[tp] + number if start[0] == "-" else number for tp in partitions}
    _note_beyond(flag, start, {tp: ends[tp] for tp, at in asked.items() if at > ends[tp]})
    return {tp: min(max(beginnings[tp], at), ends[tp]) for tp, at in asked.items()}


def _note_beyond(flag: str, start: str, ends: Mapping[TopicPartition, int]) -> None:
    """Say that partitions end before the offset, because otherwise nothing is shown."""
    if ends:
        shown = ", ".join(f"{tp.topic}-{tp.partition} at {end}" for tp, end in sorted(ends.items()))
        click.echo(f"{flag} {start} is beyond the end: {shown}; their ends are used", err=True)
