"""The lag of a group by partition, and how it changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka_cli.groups import Group, StartOffset

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer


_BARS: Final = "▁▂▃▄▅▆▇█"
#: Points of a trend; a table with it fits into 80 columns.
_POINTS: Final = 12
#: Clients of a shared partition that are named.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Lag:
    """One partition.

    Attributes:
        committed: The committed offset, or the start offset of a share group; None without one.
        end: The end of the partition, None if the topic does not exist any more.
        client_id: The client that owns the partition, or the first ones that share it, with commas;
            None without one.
        shared: Whether the group is a share group.
        reported: The lag by the broker, in a share group.
    """

    tp: TopicPartition
    committed: int | None
    end: int | None
    client_id: str | None
    shared: bool = False
    reported: int | None = None

    @property
    def lag(self) -> int | None:
        """The end less the committed offset; None while it is unknown.

        Negative beyond the end, for example after the topic was recreated.
        """
        if self.shared:
            return self.reported
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed


def lags_of(
    group: Group, committed: Mapping[TopicPartition, OffsetAndMetadata], consumer: KafkaConsumer
) -> list[Lag]:
    """Return the lag of each partition that a group has committed or owns."""
    owners = {tp: each.client_id for each in group.members for tp in each.assigned}
    partitions = sorted({*owners, *committed})
    ends = consumer.end_offsets(existing(partitions, consumer))
    return [
        Lag(
            tp,
            committed[tp].offset if tp in committed else None,
            ends.get(tp),
            owners.get(tp),
        )
        for tp in partitions
    ]


def shared_lags_of(
    group: Group, starts: Mapping[TopicPartition, StartOffset], consumer: KafkaConsumer
) -> list[Lag]:
    """Return the lag of each partition of a share group."""
    owners: dict[TopicPartition, set[str]] = {}
    for member in group.members:
        for tp in member.assigned:
            owners.setdefault(tp, set()).add(member.client_id)
    ends = consumer.end_offsets(existing(starts, consumer))
    return [
        Lag(
            tp,
            each.offset,
            ends.get(tp),
            _names(owners.get(tp, ())),
            shared=True,
            reported=each.lag,
        )
        for tp, each in starts.items()
    ]


def _names(clients: Collection[str]) -> str | None:
    """Return the first names, and how many more there are."""
    more = [f"+{len(clients) - _MOST_NAMED}"] if len(clients) > _MOST_NAMED else []
    return ",".join([*sorted(clients)[:_MOST_NAMED], *more]) or None


def existing(partitions: Iterable[TopicPartition], consumer: KafkaConsumer) -> list[TopicPartition]:
    """Return the partitions that exist."""
    known = consumer.cluster().topics
    return [
        tp for tp in partitions if tp.topic in known and tp.partition in known[tp.topic].partitions
    ]


def total_of(lags: Iterable[Lag]) -> int:
    """Return the sum of the known lags.

    A negative lag counts as 0: it would hide what other partitions lag behind.
    """
    return sum(max(0, each.lag or 0) for each in lags)


class History:
    """The last points of each partition's lag and committed offset."""

    def __init__(self) -> None:
        self._lags: dict[TopicPartition, deque[int]] = {}
        self._committed: dict[TopicPartition, deque[tuple[int, int]]] = {}
        self._totals: deque[int] = deque(maxlen=_POINTS)
        self._highest = 0

    def add(self, now_ms: int, lags: Sequence[Lag]) -> None:
        """Add a point, and forget partitions that are gone."""
        present = {each.tp for each in lags}
        for gone in self._lags.keys() - present:
            del self._lags[gone], self._committed[gone]
        for each in lags:
            if each.lag is None or each.committed is None:
                continue
            self._lags.setdefault(each.tp, deque(maxlen=_POINTS)).append(each.lag)
            points = self._committed.setdefault(each.tp, deque(maxlen=_POINTS))
            points.append((now_ms, each.committed))
        self._totals.append(total_of(lags))
        self._highest = max(map(max, self._lags.values()), default=0)

    def rate(self, tp: TopicPartition) -> int | None:
        """Return the committed records per second since the oldest point, None with one point."""
        points = self._committed.get(tp)
        if points is None or len(points) < 2:
            return None
        (begun_ms, begun), (ended_ms, ended) = points[0], points[-1]
        return round(1000 * (ended - begun) / max(1, ended_ms - begun_ms))

    def trend(self, tp: TopicPartition) -> str:
        """Return the lag of a partition as a sparkline, with the same scale for all partitions."""
        return sparkline(self._lags.get(tp, ()), self._highest)

    def total_trend(self) -> str:
        """Return the lag of all partitions as a sparkline."""
        return sparkline(self._totals)


def sparkline(numbers: Sequence[int], highest: int | None = None) -> str:
    """Return numbers as bars; the highest bar is `highest` or the largest number, the lowest 0.

    A negative number, as of a lag, has the lowest bar.
    """
    if highest is None:
        highest = max(numbers, default=0)
    if highest <= 0:
        return _BARS[0] * len(numbers)
    return "".join(_BARS[round(max(0, each) / highest * (len(_BARS) - 1))] for each in numbers)
