"""Ledgers find what is lost, read twice or out of order, and commits beyond what was read."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation
from tests.histories.anomalies import anomalies
from tests.histories.ledger import GroupLedger, Ledger, SimulatedLedger
from tests.histories.operations import Assigned, Operation, Polled, Released
from tests.histories.share_events import Event, event_of, line_of
from tests.histories.share_ledger import LIMIT, ShareLedger
from tests.scenarios.numbered_records import create_topic, produce, value_of


def member(name: str, *operations: Operation, doubtful: tuple[float, ...] = ()) -> Any:
    return SimpleNamespace(name=name, operations=list(operations), doubtful=list(doubtful))


def ledger(*members: Any) -> GroupLedger:
    made = GroupLedger(partitions=1)
    made.members += members
    return made


def polled(name: str, at: float, first: int, last: int) -> Polled:
    return Polled(name, at, at, tuple((0, n, f"0-{n}") for n in range(first, last + 1)))


def found(made: GroupLedger, committed: int = 0, sent: int = 0) -> list[str]:
    return [each.kind for each in anomalies(made.history({0: committed}, sent))]


TP = TopicPartition("orders", 0)
#: Offsets and values as a consumer with a defect would return them, of five records.
READ_WRONG = {
    "lost": ((0, 0), (1, 1), (3, 3), (4, 4)),
    "twice": ((0, 0), (1, 1), (1, 1), (2, 2), (3, 3), (4, 4)),
    "swapped": ((0, 0), (2, 2), (1, 1), (3, 3), (4, 4)),
    "other value": ((0, 0), (1, 2), (2, 1), (3, 3), (4, 4)),
    "the last lost": ((0, 0), (1, 1), (2, 2), (3, 3)),
}
FOUND: dict[str, set[str]] = {
    "lost": {"lost write", "internal poll skip"},
    "twice": {"internal nonmonotonic poll"},
    "swapped": {"internal nonmonotonic poll"},
    "other value": {"duplicate", "inconsistent offsets"},
    "the last lost": {"unseen"},
}


class Batch(dict[TopicPartition, list[Any]]):
    @property
    def count(self) -> int:
        return sum(map(len, self.values()))


def consumer_of(simulation: Simulation, records: tuple[tuple[int, int], ...]) -> Any:
    """Return one whose first poll() returns these records; the next ones take their time."""
    batch = [SimpleNamespace(offset=at, value=value_of(TP, number)) for at, number in records]
    left = [Batch({TP: batch})]

    def poll(timeout_ms: int, _: int | None) -> Batch:
        if left:
            return left.pop()
        simulation.sleep(timeout_ms)
        return Batch()

    return SimpleNamespace(poll=poll)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation("ledgers") as made:
        create_topic(made, "orders", 1)
        produce(made, TP, 5)
        yield made


@pytest.mark.parametrize("defect", READ_WRONG)
def test_each_ledger_finds_what_a_consumer_reads_wrong(simulation: Simulation, defect: str) -> None:
    records = READ_WRONG[defect]
    message = {"other value": "value", "the last lost": "stuck"}.get(defect, "expected")
    with pytest.raises(AssertionError, match=message):
        SimulatedLedger(simulation, consumer_of(simulation, records), [TP]).read_all(10_000)
    if defect != "the last lost":  # for which a ledger waits in real time
        with pytest.raises(AssertionError, match=message):
            Ledger(consumer_of(simulation, records), [TP]).read_to(lambda _: 5)
    operation = Polled("a", 1.0, 1.0, tuple((0, at, f"0-{number}") for at, number in records))
    of_group = ledger(member("a", operation))
    assert FOUND[defect] <= set(found(of_group, sent=5))
    assert of_group.repeated() == (defect == "twice")
    with pytest.raises(AssertionError, match="anomalies, the first: "):
        of_group.check({}, 5)


def test_records_read_once_and_in_order_are_right(simulation: Simulation) -> None:
    right = tuple((number, number) for number in range(5))
    SimulatedLedger(simulation, consumer_of(simulation, right), [TP]).read_all(10_000)
    Ledger(consumer_of(simulation, right), [TP]).read_to(lambda _: 5)
    ledger(member("a", polled("a", 1.0, 0, 4))).check({0: 5}, 5)


def test_a_commit_beyond_what_was_read_is_found_at_once(simulation: Simulation) -> None:
    consumer = simulation.consumer(group_id="g", auto_offset_reset="earliest")
    consumer.assign([TP])
    reads = SimulatedLedger(simulation, consumer, [TP])
    reads.poll(max_records=3)
    assert reads.commit(1_000)
    consumer.poll(1_000)  # past the ledger
    with pytest.raises(AssertionError, match="5 committed, 3 read"):
        reads.commit(1_000)


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


def test_a_commit_that_is_ahead_is_found() -> None:
    one = ledger(member("a", polled("a", 1.0, 0, 4)))
    assert found(one, committed=5, sent=5) == []
    assert "commit ahead" in found(one, committed=6, sent=7)


def test_the_counts_of_the_ledger() -> None:
    both = ledger(member("a", polled("a", 1.0, 0, 4)), member("b", polled("b", 4.0, 3, 9)))
    assert both.repeated() == 2
    assert both.first_read_after(2.0) == {0: 4.0}
    assert both.longest_silence(0.5, 6.0) == pytest.approx(3.0)


# --- share groups ---------------------------------------------------------------------------------


def shared(**members: list[Event]) -> ShareLedger:
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
    assert shared(a=a, b=before).anomalies() == []
    [what] = shared(a=a, b=after).anomalies()
    assert what == "0-0 was stored for a at 20, and locked for b at 21"
    [what] = shared(a=[event("got", 10, 0, LIMIT + 1, 9)]).anomalies()
    assert what == "0-0 was delivered 11 times"


def test_each_record_is_done() -> None:
    made = shared(
        a=[event("got", 1, 0, 1, 0), event("accept", 2), event("got", 3, 1, LIMIT, 0)],
        b=[event("damaged", 4, 2, 3), event("reject", 5, 4), event("accept", 6, 5)],
        c=[event("got", 7, 5, 1, 0), event("lost", 8, 5), event("release", 9, 6)],
    )
    assert made.undone(8) == [(0, 6), (0, 7)], "b has accepted the record that c has lost"
    late = [event("release", 2), event("lost", 2), event("accept", 3, 1), event("lost", 3, 1)]
    assert shared(a=late, b=[event("accept", 4)]).undone(2) == [(0, 1)]
    assert "2 were damaged, and 2 of them given up" in made.account()


def test_a_backlog_tells_slow_from_standing_still() -> None:
    made = shared(a=[Event("accept", 1_000, ((0, 0), (2, 0))), Event("reject", 4_500, ((2, 1),))])
    made.partitions = 4
    undone = [(0, 1), (0, 2), (1, 0), (2, 2)]
    assert made.backlog(undone, 5.0).split("; ") == [
        "2 of partition 0 from offset 1 on, where a record was last accepted or rejected 4.0 s ago",
        "1 of partition 1 from offset 0 on, where a record was last accepted or rejected never",
        "1 of partition 2 from offset 2 on, where a record was last accepted or rejected 0.5 s ago",
    ]


def test_why_a_record_came_again() -> None:
    first = [event("got", 1, 0, 1, 0), event("release", 2), event("got", 3, 0, 2, 2)]
    again = shared(a=first, b=[event("got", 9, 0, 3, 8), event("accept", 9)]).account()
    assert again.endswith("again: 1 released, 1 whose member did nothing with them")
