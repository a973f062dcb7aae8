"""The form of offsets in Spark's checkpoints, and arithmetic on offsets; no broker is contacted.

The JSON is that of Spark's own connector, `{"orders": {"0": 42}}`, so that either can continue the
other's checkpoint. Whatever else there is to say is said in keys that are no names of topics and
have no partitions, because the connector skips those: the id of each topic, where a query's first
batch began, and the version of this form. The order of keys is fixed, because Spark compares
offsets as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.types import TopicPartition

R = TypeVar("R")

PartitionOffsets = dict[TopicPartition, int]
#: The JSON in Spark's log.
LoggedOffset = dict[str, dict[str, int]]

#: The version of what is stored with the offsets; without ids of topics, it was 1.
_VERSION: Final = 2
_VERSION_KEY: Final = "version {} of tandem_kafka"
_ID_KEY: Final = "id of {} is {}"
_BEGAN_KEY: Final = "{}-{} began at {}"
#: A query's first batch of version 1 began at no partition, or at `{"begin of orders": {"0": 7}}`.
_BEGIN_1: Final = "begin of "
_LATEST_OFFSET: Final = -1
_EARLIEST_OFFSET: Final = -2


@dataclass(frozen=True, slots=True)
class Edge:
    """The beginning or the end of every partition."""

    name: str


EARLIEST: Final = Edge("earliest")
LATEST: Final = Edge("latest")


@dataclass(frozen=True, slots=True)
class At:
    """An offset or an edge for each partition."""

    offsets: Mapping[TopicPartition, int | Edge]


@dataclass(frozen=True, slots=True)
class Since:
    """The first record at or after a time in ms: one time for all partitions, or one for each."""

    timestamp_ms: int | Mapping[TopicPartition, int]


Limit = Edge | At | Since


# --- offsets in a checkpoint -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """An offset of a stream in Spark's log: the beginning of a query, or the end of a batch.

    Attributes:
        ends: The next offset of each partition.
        topic_ids: The ids of topics; of those that are not in it, the id is not known.
        beginning: Where the batch began, in the end of a query's first batch; None in all others.
    """

    ends: PartitionOffsets = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    beginning: PartitionOffsets | None = None

    def recreated(self, now: Mapping[str, UUID]) -> dict[str, UUID]:
        """Return the topics that have a different id in `now`, with the ids that they had."""
        return {
            topic: known
            for topic, known in self.topic_ids.items()
            if now.get(topic, known) != known
        }

    def without_recreated(self, now: Mapping[str, UUID]) -> PartitionOffsets:
        """Return the ends of the topics that were not created again in the meantime."""
        again = self.recreated(now)
        return {tp: at for tp, at in self.ends.items() if tp.topic not in again}

    def to_json(self) -> LoggedOffset:
        """Return the form in Spark's log."""
        found: LoggedOffset = {}
        for tp in sorted(self.ends):
            found.setdefault(tp.topic, {})[str(tp.partition)] = self.ends[tp]
        topics = {tp.topic for tp in self.ends}
        notes = [
            _ID_KEY.format(topic, known)
            for topic, known in sorted(self.topic_ids.items())
            if topic in topics
        ]
        if self.beginning is not None:
            began = sorted(self.beginning.items())
            notes += [_BEGAN_KEY.format(*tp, at) for tp, at in began] or [_BEGIN_1]
        if notes:
            notes.append(_VERSION_KEY.format(_VERSION))
        return found | {note: {} for note in notes}

    @classmethod
    def from_json(cls, value: Any) -> StreamOffset:
        """Parse what Spark's log has.

        Raises:
            InvalidArgumentError: It has a different form, for example that of a future version.
        """
        ends: PartitionOffsets = {}
        topic_ids: dict[str, UUID] = {}
        beginning: PartitionOffsets | None = None
        for tp, at in _nested(value).items():
            if tp.topic.startswith(_BEGIN_1):
                beginning = beginning or {}
                beginning[TopicPartition(tp.topic.removeprefix(_BEGIN_1), tp.partition)] = at
            else:
                ends[tp] = at
        for note in _notes(value):
            if found := re.fullmatch(_pattern(_ID_KEY), note):
                topic_ids[found[1]] = _read(UUID, found[2], value)
            elif found := re.fullmatch(_pattern(_BEGAN_KEY), note):
                beginning = beginning or {}
                tp = TopicPartition(found[1], _read(int, found[2], value))
                beginning[tp] = _read(int, found[3], value)
            elif note == _BEGIN_1:
                beginning = {}
        return cls(ends, topic_ids, beginning)


def _pattern(key: str) -> str:
    return re.escape(key).replace(r"\{\}", r"(\S+)")


def _notes(value: Mapping[str, Any]) -> list[str]:
    """Return the keys without partitions; a later version may have given them another form."""
    notes = [name for name, numbers in value.items() if not numbers]
    for note in notes:
        if found := re.fullmatch(_pattern(_VERSION_KEY), note):
            _check_version(found[1])
    return notes


def _read(form: Callable[[str], R], text: str, value: Any) -> R:
    try:
        return form(text)
    except ValueError:
        raise _not_supported(value) from None


def _not_supported(value: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the checkpoint has offsets in a form that is not supported: {value!r}"
    )


def _check_version(given: object) -> None:
    if given != str(_VERSION):
        raise InvalidArgumentError(
            f"the checkpoint has offsets of version {given}, which this version does not "
            "support: use the version of tandem-kafka that wrote it"
        )


def _nested(value: Any) -> PartitionOffsets:
    """Parse offsets by topic and partition.

    Raises:
        InvalidArgumentError: They have a different form.
    """
    version = value.get("version") if isinstance(value, dict) else None
    if version is not None and not isinstance(version, dict):
        _check_version(version)
    try:
        return {
            TopicPartition(topic, int(number)): _whole(offset)
            for topic, numbers in value.items()
            for number, offset in numbers.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise _not_supported(value) from None


# --- option values -----------------------------------------------------------------------------


def parse_offsets(name: str, text: str, *, edges: Iterable[Edge]) -> Limit:
    """Parse `earliest`, `latest` or JSON with an offset, -2 or -1 for each partition."""
    allowed = {edge.name: edge for edge in edges}
    words = ", ".join(allowed)
    if text.strip().lower() in allowed:
        return allowed[text.strip().lower()]
    named = {_LATEST_OFFSET: LATEST, _EARLIEST_OFFSET: EARLIEST}
    found: dict[TopicPartition, int | Edge] = {}
    for tp, offset in _parsed(name, text, f"{words}, or an offset for each partition").items():
        edge = named.get(offset)
        if edge is None and offset < 0:
            raise InvalidArgumentError(
                f"{name}: {offset} is not a valid offset of {_named(tp)}: give 0 or more, "
                "-2 for earliest, or -1 for latest"
            )
        if edge is not None and edge.name not in allowed:
            raise InvalidArgumentError(
                f"{name}: {edge.name} is not allowed for {_named(tp)}: give an offset, or {words}"
            )
        found[tp] = offset if edge is None else edge
    return At(found)


def parse_timestamps(name: str, text: str) -> Since:
    """Parse JSON with a time in ms for each partition."""
    found = _parsed(name, text, "a time in ms for each partition")
    if any(at_ms < 0 for at_ms in found.values()):
        raise InvalidArgumentError(f"{name}: times are in ms since 1970 and cannot be negative")
    return Since(found)


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse JSON with a list of partition numbers for each topic."""
    form = 'a list of partitions for each topic, as JSON like {"orders": [0, 1]}'
    value = _json(name, text, form)
    try:
        found = {
            TopicPartition(topic, _whole(number))
            for topic, numbers in value.items()
            for number in numbers
        }
    except (AttributeError, TypeError, ValueError):
        found = set()
    if not found:
        raise InvalidArgumentError(f"{name} must be {form}; got {text!r}")
    return tuple(sorted(found))


def _parsed(name: str, text: str, what: str) -> PartitionOffsets:
    form = f'{what}, as JSON like {{"orders": {{"0": 23}}}}'
    value = _json(name, text, form)
    try:
        return _nested(value)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"{name} must be {form}; got {text!r}") from None


def _json(name: str, text: str, form: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{name} must be {form}; got {text!r}, which is not JSON ({error})"
        ) from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _named(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


# --- arithmetic --------------------------------------------------------------------------------


def rate_limited(
    limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> PartitionOffsets:
    """Return end offsets for about `limit` records, in proportion to each partition's backlog.

    Rounding follows Spark's connector: a share below one record is rounded up, others down.
    """
    sizes = {tp: end[tp] - start[tp] for tp in end if tp in start and end[tp] > start[tp]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    found: PartitionOffsets = {}
    for tp, last in end.items():
        if tp not in sizes:
            found[tp] = last
            continue
        share = limit * (sizes[tp] / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        found[tp] = min(last, start[tp] + step)
    return found
