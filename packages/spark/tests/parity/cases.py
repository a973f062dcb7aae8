"""All combinations, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from packages.spark.tests.parity import batches, sinks, streams
from packages.spark.tests.parity.dimensions import Case

GROUPS: Final = (
    batches.starts_and_ends,
    batches.selections,
    batches.numbers_of_tasks,
    batches.queries,
    batches.offset_mistakes,
    batches.mistakes,
    sinks.sinks,
    batches.kinds,
    streams.streams,
    streams.streams_of_kinds,
    streams.live_streams,
    streams.stream_mistakes,
)


@cache
def cases() -> Mapping[str, Case]:
    """Return all combinations by id, in the order in which they are run."""
    found = [case for generate in GROUPS for case in generate()]
    by_id = {case.id: case for case in found}
    assert len(by_id) == len(found), "two combinations have the same name"
    return by_id
