"""The evaluation of the reports of two members in the benchmarks of groups."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.groups.suite import pause_of

MS = 1_000_000


def every(ms: int, begin: int, end: int) -> list[int]:
    return [at * MS for at in range(begin, end, ms)]


def report(subscribed_ms: int, polls: dict[str, list[int]]) -> dict[str, Any]:
    return {"subscribed": subscribed_ms * MS, "polls": polls}


def test_the_pause_is_measured_on_kept_partitions_during_the_join() -> None:
    first = report(
        0,
        {
            "0": [*every(5, 0, 3_000), *every(5, 3_040, 6_000)],  # kept, with a pause of 45 ms
            "1": [*every(5, 0, 3_100), *every(5, 5_000, 6_000)],  # moved, and back at the end
        },
    )
    second = report(2_500, {"1": every(5, 3_200, 5_000)})
    assert pause_of(first, second, 1.0) == {"pause_ms": 45, "before_ms": 5, "moved_ms": 105}


def test_a_gap_before_a_join_is_not_a_pause() -> None:
    first = report(
        0,
        {
            "0": [*every(5, 0, 2_000), *every(5, 2_070, 6_000)],
            "1": every(5, 0, 3_000),
        },
    )
    second = report(2_500, {"1": every(5, 3_000, 5_000)})
    figures = pause_of(first, second, 1.0)
    assert (figures["pause_ms"], figures["before_ms"]) == (5, 75)


@pytest.mark.parametrize("theirs", ["0", "2"])
def test_without_a_shared_assignment_there_is_no_figure(theirs: str) -> None:
    first = report(0, {"0": every(5, 0, 3_000)})
    second = report(2_500, {theirs: every(5, 3_000, 5_000)})
    with pytest.raises(RuntimeError, match="do not share the partitions"):
        pause_of(first, second, 1.0)
