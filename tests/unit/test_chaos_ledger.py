"""The ledger of the chaos tests gives a history in which violations are found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.ledger import Ledger
from tests.histories.anomalies import anomalies
from tests.histories.operations import Assigned, Operation, Polled, Released


def member(name: str, *operations: Operation, doubtful: tuple[float, ...] = ()) -> Any:
    return SimpleNamespace(name=name, operations=list(operations), doubtful=list(doubtful))


def ledger(*members: Any) -> Ledger:
    made = Ledger(partitions=1)
    made.members += members
    return made


def polled(name: str, at: float, first: int, last: int) -> Polled:
    return Polled(name, at, at, tuple((0, n, f"0-{n}") for n in range(first, last + 1)))


def found(made: Ledger, committed: int = 0, sent: int = 0) -> list[str]:
    return [each.kind for each in anomalies(made.history({0: committed}, sent))]


A = (Assigned("a", 1.0, (0,)), Released("a", 3.0, (0,)))


def test_two_owners_at_once_are_found() -> None:
    late = member("b", Assigned("b", 3.5, (0,)), Released("b", 5.0, (0,)))
    assert found(ledger(member("a", *A), late)) == []
    early = member("b", Assigned("b", 2.5, (0,)), Released("b", 5.0, (0,)))
    assert found(ledger(member("a", *A), early)) == ["two owners"]
    lost = member("a", A[0], Released("a", 3.0, (0,), certain=False))
    assert found(ledger(lost, early)) == []


def test_a_member_that_was_paused_or_killed_may_have_lost_its_partitions() -> None:
    early = member("b", Assigned("b", 2.5, (0,)), Released("b", 5.0, (0,)))
    assert found(ledger(member("a", *A, doubtful=(2.0,)), early)) == []
    assert found(ledger(member("a", *A, doubtful=(0.5,)), early)) == ["two owners"]
    killed = member("a", A[0], polled("a", 2.7, 0, 4), doubtful=(2.8,))
    assert found(ledger(killed, early)) == []
    running = member("a", A[0], polled("a", 2.7, 0, 4))
    assert found(ledger(running, early)) == ["two owners"]


def test_only_the_partitions_that_were_owned_at_that_time_are_doubtful() -> None:
    one = Assigned("a", 0.5, (1,))
    both = member("a", one, A[0], Released("a", 3.0, (0, 1)), doubtful=(0.7,))
    early = member("b", Assigned("b", 2.5, (0, 1)), Released("b", 5.0, (0, 1)))
    (only,) = anomalies(ledger(both, early).history({}))
    assert only.what == "partition 0 has two owners"


def test_what_was_sent_and_not_read_is_found() -> None:
    gap = ledger(member("a", polled("a", 1.0, 0, 4), polled("a", 2.0, 6, 9)))
    assert found(gap, sent=10) == ["lost write", "poll skip"]
    assert found(ledger(member("a", polled("a", 1.0, 0, 4))), sent=6) == ["unseen"]


def test_a_commit_that_is_ahead_is_found() -> None:
    one = ledger(member("a", polled("a", 1.0, 0, 4)))
    assert found(one, committed=5, sent=5) == []
    assert "commit ahead" in found(one, committed=6, sent=7)


def test_the_counts_of_the_ledger() -> None:
    both = ledger(member("a", polled("a", 1.0, 0, 4)), member("b", polled("b", 4.0, 3, 9)))
    assert both.repeated() == 2
    assert both.first_read_after(2.0) == {0: 4.0}
    assert both.longest_silence(0.5, 6.0) == pytest.approx(3.0)
