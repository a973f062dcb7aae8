"""The form of offsets in Spark's checkpoints, and arithmetic on offsets; no broker is contacted.

The JSON is that of Spark's own connector, `{"orders": {"0": 42}}`, so that either can continue the
other's checkpoint. The end of a query's first batch also has `{"begin of orders": {"0": 7}}`, which
is not a valid topic name. The order of keys is fixed, because Spark compares offsets as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.types import TopicPartition

Offsets = dict[TopicPartition, int]

_BEGIN: Final = "begin of "
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


def to_json(
    offsets: Mapping[TopicPartition, int], beginning: Mapping[TopicPartition, int] | None = None
) -> dict[str, dict[str, int]]:
    """Convert offsets to the form in Spark's log; include where the batch began, if given."""
    found: dict[str, dict[str, int]] = {}
    for prefix, part in (("", offsets), (_BEGIN, beginning or {})):
        for tp in sorted(part):
            found.setdefault(prefix + tp.topic, {})[str(tp.partition)] = part[tp]
    if beginning is not None and not beginning:
        found[_BEGIN] = {}  # no partition existed when the batch began
    return found


def from_json(value: Any) -> Offsets:
    """Parse offsets from Spark's log.

    Raises:
        InvalidArgumentError: They have a different form, for example a future one with a version
            number. This form has none, because the connector would read it as a topic.
    """
    return {tp: at for tp, at in _kept(value).items() if not tp.topic.startswith(_BEGIN)}


def beginning_in(value: Any) -> Offsets | None:
    """Return where the batch began, if its end says so (only a query's first batch does).

    Raises:
        InvalidArgumentError: The offsets have a different form; see `from_json`.
    """
    found = {
        TopicPartition(tp.topic.removeprefix(_BEGIN), tp.partition): at
        for tp, at in _kept(value).items()
        if tp.topic.startswith(_BEGIN)
    }
    return found if any(name.startswith(_BEGIN) for name in value) else None


def _kept(value: Any) -> Offsets:
    version = value.get("version") if isinstance(value, dict) else None
    if version is not None and not isinstance(version, dict):
        raise InvalidArgumentError(
            f"the checkpoint has offsets of version {version}, which this version does not "
            "support: use the version of tandem-kafka that wrote it"
        )
    try:
        return {
            TopicPartition(topic, int(number)): _whole(offset)
            for topic, numbers in value.items()
            for number, offset in numbers.items()
        }
    except (AttributeError, TypeError, ValueError):
        message = f"the checkpoint has offsets in a form that is not supported: {value!r}"
        raise InvalidArgumentError(message) from None


# --- option values -----------------------------------------------------------------------------


def parse_offsets(name: str, text: str, *, edges: Iterable[Edge]) -> Limit:
    """Parse `earliest`, `latest` or JSON with an offset, -2 or -1 for each partition."""
    allowed = {edge.name: edge for edge in edges}
    words = ", ".join(allowed)
    if text.strip().lower() in allowed:
        return allowed[text.strip().lower()]
    named = {_LATEST_OFFSET: LATEST, _EARLIEST_OFFSET: EARLIEST}
    found: dict[TopicPartition, int | Edge] = {}
    for tp, offset in _nested(name, text, f"{words}, or an offset for each partition").items():
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
    found = _nested(name, text, "a time in ms for each partition")
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


def _nested(name: str, text: str, what: str) -> Offsets:
    form = f'{what}, as JSON like {{"orders": {{"0": 23}}}}'
    value = _json(name, text, form)
    try:
        return from_json(value)
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
) -> Offsets:
    """Return end offsets for about `limit` records, in proportion to each partition's backlog.

    Rounding follows Spark's connector: a share below one record is rounded up, others down.
    """
    sizes = {tp: end[tp] - start[tp] for tp in end if tp in start and end[tp] > start[tp]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    found: Offsets = {}
    for tp, last in end.items():
        if tp not in sizes:
            found[tp] = last
            continue
        share = limit * (sizes[tp] / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        found[tp] = min(last, start[tp] + step)
    return found
