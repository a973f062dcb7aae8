"""The ledger of the chaos tests detects violations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.ledger import Ledger


def member(
    name: str, *events: tuple[float, str, list[object]], doubtful: tuple[float, ...] = ()
) -> Any:
    return SimpleNamespace(name=name, events=list(events), doubtful=list(doubtful))


def ledger(*members: Any) -> Ledger:
    made = Ledger(partitions=1)
    made.members += members
    return made


def read(
    at: float, first: int, last: int, count: int | None = None
) -> tuple[float, str, list[object]]:
    return at, "read", [0, first, last, last - first + 1 if count is None else count]


def test_two_owners_at_once_are_found() -> None:
    first = member("a", (1.0, "assigned", [[0]]), (3.0, "revoked", [[0]]))
    late = member("b", (3.5, "assigned", [[0]]), (5.0, "revoked", [[0]]))
    ledger(first, late).check_owners()
    early = member("b", (2.5, "assigned", [[0]]), (5.0, "revoked", [[0]]))
    with pytest.raises(AssertionError, match="both own it"):
        ledger(first, early).check_owners()
    paused = member("a", *first.events, doubtful=(2.0,))
    ledger(paused, early).check_owners()
    lost = member("a", (1.0, "assigned", [[0]]), (3.0, "lost", [[0]]))
    ledger(lost, early).check_owners()


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([(1.0, "assigned", [[0]]), (2.0, "assigned", [[0]])], "assigned twice"),
        ([(1.0, "revoked", [[0]])], "revoked before it is assigned"),
    ],
)
def test_callbacks_without_their_pair_are_found(events: Any, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        ledger(member("a", *events)).check_owners()


def test_gaps_are_found() -> None:
    ledger(member("a", read(1.0, 0, 4), read(2.0, 5, 9))).check_order()
    with pytest.raises(AssertionError, match="6 was read instead of 5"):
        ledger(member("a", read(1.0, 0, 4), read(2.0, 6, 9))).check_order()
    with pytest.raises(AssertionError, match="4 from 0 to 4"):
        ledger(member("a", read(1.0, 0, 4, count=4))).check_order()
    again = (1.5, "revoked", [[0]])
    ledger(member("a", read(1.0, 0, 4), again, read(2.0, 2, 9))).check_order()


def test_a_commit_that_is_ahead_is_found() -> None:
    one = ledger(member("a", read(1.0, 0, 4)))
    one.check_commits({0: 5})
    with pytest.raises(AssertionError, match="6 is committed and not read"):
        one.check_commits({0: 6})


def test_the_counts_of_the_ledger() -> None:
    both = ledger(member("a", read(1.0, 0, 4)), member("b", read(4.0, 3, 9)))
    assert both.repeated() == 2
    assert both.first_read_after(2.0) == {0: 4.0}
    assert both.longest_silence(0.5, 6.0) == pytest.approx(3.0)
