"""Each kind of anomaly is found when it is planted, and only that one."""

from __future__ import annotations

import pytest

from tests.histories.anomalies import anomalies
from tests.histories.operations import (
    Assigned,
    Committed,
    Operation,
    Outcome,
    Polled,
    Produced,
    Released,
    Sought,
    from_lines,
    to_lines,
)


def produced(offset: int, value: str = "", outcome: Outcome = "acknowledged") -> Produced:
    return Produced("p", 0.0, 0.1, 0, value or f"v{offset}", outcome, offset)


def polled(at: float, *records: int | tuple[int, str], by: str = "a") -> Polled:
    pairs = [(each, f"v{each}") if isinstance(each, int) else each for each in records]
    return Polled(by, at, at + 0.1, tuple((0, offset, value) for offset, value in pairs))


def assigned(at: float, by: str = "a") -> Assigned:
    return Assigned(by, at, (0,))


def released(at: float, by: str = "a", *, certain: bool = True) -> Released:
    return Released(by, at, (0,), certain)


def committed(at: float, offset: int) -> Committed:
    return Committed("a", at, at + 0.1, ((0, offset),))


CLEAN: list[Operation] = [
    *(produced(offset) for offset in range(6)),
    Produced("p", 0.0, 0.1, 0, "gone", "aborted", 6),
    Produced("p", 0.0, 0.1, 0, "perhaps", "unknown"),
    assigned(1.0),
    polled(1.1, 0, 1),
    committed(1.3, 2),
    polled(1.4, 2, 3),
    released(2.0),
    assigned(2.1, by="b"),
    polled(2.2, 2, 3, 4, by="b"),
    Sought("b", 2.4, 0, 1),
    polled(2.5, 1, 2, 3, 4, 5, by="b"),
    committed(2.7, 7),  # behind the marker of the aborted transaction
    released(3.0, by="b"),
]


def test_a_clean_history_has_no_anomaly() -> None:
    assert anomalies(CLEAN, transactions=1) == []


PLANTED: dict[str, list[Operation]] = {
    "lost write": [produced(0), produced(1), polled(1.0, 1)],
    "unseen": [produced(0), produced(1), polled(1.0, 0)],
    "duplicate": [produced(0), produced(1, "v0"), polled(1.0, 0, (1, "v0"))],
    "inconsistent offsets": [polled(1.0, 0), polled(2.0, (0, "other"), by="b")],
    "aborted read": [produced(0, outcome="aborted"), polled(1.0, 0)],
    "internal nonmonotonic poll": [polled(1.0, 1, 0)],
    "internal poll skip": [polled(1.0, 0, 2), polled(2.0, 1, by="b")],
    "nonmonotonic poll": [polled(1.0, 0, 1), polled(2.0, 1, 2)],
    "poll skip": [polled(1.0, 0), polled(2.0, 2), polled(1.0, 1, by="b")],
    "read without ownership": [assigned(1.0), polled(1.1, 0), released(2.0), polled(2.1, 1)],
    "commit ahead": [produced(0), produced(1), polled(1.0, 0), committed(2.0, 2), polled(3.0, 1)],
    "phantom read": [produced(0), polled(1.0, 0, (1, "other"))],
    "unpaired calls": [assigned(1.0), assigned(2.0)],
    "two owners": [assigned(1.0), assigned(2.0, by="b"), released(3.0), released(4.0, by="b")],
}


@pytest.mark.parametrize("kind", PLANTED)
def test_each_kind_is_found(kind: str) -> None:
    (found,) = anomalies(PLANTED[kind])
    assert found.kind == kind
    assert str(found).startswith(f"{kind}: ")
    assert "\n    " in str(found)


def test_owners_that_never_release_a_partition_are_found() -> None:
    both: list[Operation] = [
        assigned(1.0),
        assigned(2.0, by="b"),
        polled(3.0, 0),
        polled(3.5, 1, by="b"),
    ]
    assert [each.kind for each in anomalies(both)] == ["two owners"]
    assert anomalies([assigned(1.0), polled(1.5, 0), assigned(2.0, by="b")]) == []


def test_a_read_of_another_partition_than_the_owned_one_is_found() -> None:
    history: list[Operation] = [Assigned("a", 1.0, (1,)), polled(1.1, 0)]
    assert [each.kind for each in anomalies(history)] == ["read without ownership"]


@pytest.mark.parametrize(
    ("sought", "first", "kinds"),
    [(1, 1, []), (1, 3, ["poll skip"]), (3, 1, ["nonmonotonic poll"]), (6, 6, [])],
)
def test_reads_continue_where_a_seek_named(sought: int, first: int, kinds: list[str]) -> None:
    history: list[Operation] = [
        polled(1.0, *range(5)),
        Sought("a", 2.0, 0, sought),
        polled(3.0, *range(first, 8)),
    ]
    assert [each.kind for each in anomalies(history)] == kinds


def test_a_record_that_may_not_be_stored_is_not_missing() -> None:
    history: list[Operation] = [
        *(produced(0), produced(1, "perhaps", "unknown"), produced(2)),
        polled(1.0, 0, 2),
        committed(2.0, 3),
    ]
    assert anomalies(history) == []


def test_a_commit_behind_the_end_of_the_log_is_found() -> None:
    history: list[Operation] = [
        produced(0),
        polled(1.0, 0),
        committed(2.0, 2),
        committed(3.0, 2**40),
    ]
    assert [each.kind for each in anomalies(history, transactions=1)] == ["commit ahead"]


def test_a_commit_just_behind_the_end_is_found_without_transactions() -> None:
    history: list[Operation] = [produced(0), polled(1.0, 0), committed(2.0, 1)]
    assert anomalies(history) == []
    history.append(committed(3.0, 2))
    assert [each.kind for each in anomalies(history)] == ["commit ahead"]
    assert anomalies(history, transactions=1) == []


def test_what_is_not_certain_is_no_anomaly() -> None:
    expelled: list[Operation] = [assigned(1.0), assigned(2.0, by="b"), released(3.0, certain=False)]
    assert anomalies([*expelled, released(4.0, by="b")]) == []


def test_lines_of_json_give_the_same_history() -> None:
    assert from_lines(to_lines(CLEAN)) == CLEAN
