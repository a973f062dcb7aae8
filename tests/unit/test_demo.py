"""The demo's account: what makes it fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from demo.__main__ import summary
from demo.ledger import Ledger

TOTAL = 6


def settled() -> Ledger:
    """An account that adds up: numbers 0 to 5 in turn to two partitions; a member was killed."""
    ledger = Ledger(partitions=2)
    for number in range(TOTAL):
        ledger.produced(number % 2, number)
    ledger.read(0, 0, [0, 2, 4])
    ledger.read(1, 0, [1, 3])
    ledger.committed({0: 3, 1: 1})
    assert ledger.crashed([1]) == 1
    ledger.read(1, 1, [3, 5])
    ledger.committed({1: 3})
    return ledger


def test_what_adds_up_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = settled()
    assert ledger.read_again == 1
    assert summary(ledger, TOTAL) == 0
    assert "nothing missed" in capsys.readouterr().out


def never_read(ledger: Ledger) -> None:
    del ledger.partitions[1].reads[5]


def skipped(ledger: Ledger) -> None:
    ledger.read(0, 4, [8])


def not_committed(ledger: Ledger) -> None:
    ledger.committed({0: 2})


def not_delivered(ledger: Ledger) -> None:
    ledger.partitions[1].produced.discard(5)


def read_twice(ledger: Ledger) -> None:
    ledger.partitions[0].reads[2] += 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (never_read, "partition 1: 1 records were not read"),
        (skipped, "partition 0: offset 3 was due, 4 was read"),
        (not_committed, "5 of 6 records are committed"),
        (not_delivered, "5 of 6 records were delivered"),
        (read_twice, "1 records were due again, 2 came"),
    ],
)
def test_anything_missed_makes_it_fail(
    capsys: pytest.CaptureFixture[str], spoil: Callable[[Ledger], None], said: str
) -> None:
    ledger = settled()
    spoil(ledger)
    assert summary(ledger, TOTAL) == 1
    assert f"wrong: {said}" in capsys.readouterr().out
