"""The flags that choose a topic, partitions and a range, and what they stand for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.failures import CommandError

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.tables.span import Bounds, Span
    from tandem_kafka.types import TopicPartition
    from tandem_kafka_cli.connection import Connection


_RANGE: Final = (
    flags.PARTITIONS,
    click.option(
        "-o", "--offset", metavar="WHERE",
        help="Begin here: beginning, end, an offset, -N before the end, s@TIME.",
    ),
    click.option(
        "--from", "since", metavar="TIME", help="Begin at a time: 15m (ago), 2026-05-01T12:00."
    ),
    click.option("--until", metavar="TIME", help="End at a time; the end of the topic by default."),
    click.option(
        "--uncommitted", is_flag=True, help="Also records of aborted and open transactions."
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Selection:
    """A range of a topic.

    Attributes:
        topic: Its name.
        numbers: The partitions; empty for all.
        start: Where to begin, as for `Bounds.at()`; None without a flag.
        until: The time to end at, as it was written.
        uncommitted: Whether to read records of aborted and open transactions.
    """

    topic: str
    numbers: tuple[int, ...] = ()
    start: str | None = None
    until: str | None = None
    uncommitted: bool = False

    def partitions(self, consumer: KafkaConsumer) -> list[TopicPartition]:
        """Return the partitions, in order.

        Raises:
            CommandError: The topic or a partition does not exist.
        """
        from tandem_kafka_cli.connection import partitions_of

        return partitions_of(consumer, self.topic, self.numbers)

    def span(self, connection: Connection, consumer: KafkaConsumer) -> Span:
        """Return the offsets of the range; without a start, from the beginning.

        Raises:
            CommandError: The topic or a partition does not exist, or a flag is invalid.
        """
        from tandem_kafka.tables.span import Span

        now_ms = connection.environment.clock.wall_ms()
        bounds = bounds_of(consumer, self.partitions(consumer), now_ms)
        return Span(
            bounds.at("-o", self.start or "beginning"),
            bounds.at("--until", f"s@{self.until}" if self.until else "end"),
        )


def bounds_of(consumer: KafkaConsumer, partitions: Sequence[TopicPartition], now_ms: int) -> Bounds:
    """Return bounds that tell the user on stderr what does not exist."""
    from tandem_kafka.tables.span import Bounds

    return Bounds(consumer, partitions, now_ms, lambda line: click.echo(line, err=True))


def ranged(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a range; the function gets a `Selection` for a topic as `selection_of`."""

    @functools.wraps(command)
    def with_range(
        partitions: tuple[int, ...],
        offset: str | None,
        since: str | None,
        until: str | None,
        uncommitted: bool,
        **given: Any,
    ) -> Any:
        if offset is not None and since is not None:
            raise CommandError("choose one of -o and --from", usage=True)
        start = offset if since is None else f"s@{since}"

        def selection_of(topic: str) -> Selection:
            return Selection(topic, partitions, start, until, uncommitted)

        return command(selection_of=selection_of, **given)

    for flag in reversed(_RANGE):
        with_range = flag(with_range)
    return with_range


def selected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-t` and the flags of a range; the function gets them as `selection`."""

    @functools.wraps(command)
    def with_topic(topic: str, selection_of: Callable[[str], Selection], **given: Any) -> Any:
        return command(selection=selection_of(topic), **given)

    return flags.TOPIC(ranged(with_topic))
