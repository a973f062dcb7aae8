"""The ledger of the share group in the chaos tests finds what no fault explains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.chaos.share_events import Event, event_of, line_of
from tests.chaos.share_ledger import LIMIT, ShareLedger


def ledger(**members: list[Event]) -> ShareLedger:
    made = ShareLedger(1)
    made.members += [SimpleNamespace(name=n, events=events) for n, events in members.items()]
    return made


def event(kind: str, at_ms: int, offset: int = 0, *more: int) -> Event:
    return Event(kind, at_ms, ((0, offset, *more),))


def test_an_event_has_a_line() -> None:
    given = event("got", 12, 3, 1, 11)
    assert event_of(line_of(given)) == given


def test_a_stored_record_is_not_locked_again() -> None:
    a = [event("got", 10, 0, 1, 9), event("accept", 11), event("stored", 20)]
    before: Any = [event("got", 30, 0, 2, 19)]
    after: Any = [event("got", 30, 0, 2, 21)]
    assert ledger(a=a, b=before).anomalies() == []
    [found] = ledger(a=a, b=after).anomalies()
    assert found == "0-0 was stored for a at 20, and locked for b at 21"
    [found] = ledger(a=[event("got", 10, 0, LIMIT + 1, 9)]).anomalies()
    assert found == "0-0 was delivered 11 times"


def test_each_record_is_done() -> None:
    made = ledger(
        a=[event("got", 1, 0, 1, 0), event("accept", 2), event("got", 3, 1, LIMIT, 0)],
        b=[event("damaged", 4, 2, 3), event("reject", 5, 4), event("accept", 6, 5)],
        c=[event("got", 7, 5, 1, 0), event("lost", 8, 5), event("release", 9, 6)],
    )
    assert made.undone(8) == [(0, 6), (0, 7)], "b has accepted the record that c has lost"
    late = [event("release", 2), event("lost", 2), event("accept", 3, 1), event("lost", 3, 1)]
    assert ledger(a=late, b=[event("accept", 4)]).undone(2) == [(0, 1)]
    assert "2 were damaged, and 2 of them given up" in made.account()


def test_a_backlog_tells_slow_from_standing_still() -> None:
    made = ledger(a=[Event("accept", 1_000, ((0, 0), (2, 0))), Event("reject", 4_500, ((2, 1),))])
    made.partitions = 4
    undone = [(0, 1), (0, 2), (1, 0), (2, 2)]
    assert made.backlog(undone, 5.0).split("; ") == [
        "2 of partition 0 from offset 1 on, where a record was last accepted or rejected 4.0 s ago",
        "1 of partition 1 from offset 0 on, where a record was last accepted or rejected never",
        "1 of partition 2 from offset 2 on, where a record was last accepted or rejected 0.5 s ago",
    ]


def test_why_a_record_came_again() -> None:
    first = [event("got", 1, 0, 1, 0), event("release", 2), event("got", 3, 0, 2, 2)]
    again = ledger(a=first, b=[event("got", 9, 0, 3, 8), event("accept", 9)]).account()
    assert again.endswith("again: 1 released, 1 whose member did nothing with them")
