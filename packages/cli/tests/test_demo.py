"""The demo's ledger: errors that make it fail, and its display."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from tandem_kafka_cli.demo import member
from tandem_kafka_cli.demo.__main__ import summary
from tandem_kafka_cli.demo.ledger import Ledger
from tandem_kafka_cli.demo.view import View

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


def test_a_complete_ledger_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = settled()
    assert ledger.read_again == 1
    assert summary(View(ledger, []), ledger, TOTAL) == 0
    assert "No record was missed." in capsys.readouterr().out


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
    ("spoil", "message"),
    [
        (never_read, "partition 1: 1 records were not read"),
        (skipped, "partition 0: expected offset 3, read 4"),
        (not_committed, "5 of 6 records are committed"),
        (not_delivered, "5 of 6 records were delivered"),
        (read_twice, "2 records were read again instead of 1"),
    ],
)
def test_a_missing_record_makes_the_demo_fail(
    capsys: pytest.CaptureFixture[str], spoil: Callable[[Ledger], None], message: str
) -> None:
    ledger = settled()
    spoil(ledger)
    assert summary(View(ledger, []), ledger, TOTAL) == 1
    assert message in capsys.readouterr().out


def test_a_terminal_shows_partitions_owners_lag_and_what_to_try_next() -> None:
    ledger = settled()
    ledger.produced(0, 6)
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100, color_system="truecolor")
    view = View(ledger, [], console)
    view.refresh()
    view.conclude("account", "No record was missed.", good=True)
    shown = output.getvalue()
    for expected in ("partition", "lag", "owner", "records/s read", "Try next", "\x1b[1;32m"):
        assert expected in shown


@pytest.mark.parametrize("built", [True, False])
def test_members_without_an_extension_do_not_warn_of_it(
    monkeypatch: pytest.MonkeyPatch, built: bool
) -> None:
    monkeypatch.delenv("TANDEM_KAFKA_IMPL", raising=False)
    monkeypatch.setattr(member, "find_spec", lambda _: object() if built else None)
    assert member.environment().get("TANDEM_KAFKA_IMPL") == (None if built else "python")
