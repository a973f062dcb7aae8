"""The history of a scenario: an anomaly in it is a violation, unless records vanish."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios import Violation
from tests.scenarios.history import History
from tests.scenarios.numbered_records import create_topic, produce, value_of

TP = TopicPartition("orders", 0)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation("history") as made:
        create_topic(made, "orders", 1)
        produce(made, TP, 10)
        yield made


def history(simulation: Simulation, *, judged: bool = True) -> History:
    """Return one with ten records, which two members read in turn."""
    made = History(simulation, judged=judged)
    made.found(TP)
    made.assigned(1, [TP])
    read(made, 1, 0, 4)
    made.committed("one", TP, 5)
    made.released(1, [TP], certain=True)
    made.assigned(2, [TP])
    read(made, 2, 5, 9)
    return made


def read(made: History, member: int, first: int, last: int) -> None:
    records = [SimpleNamespace(offset=n, value=value_of(TP, n)) for n in range(first, last + 1)]
    made.polled(member, TP, records)


def test_a_history_without_an_anomaly(simulation: Simulation) -> None:
    history(simulation).check()


def test_anomalies_are_violations(simulation: Simulation) -> None:
    again = history(simulation)
    read(again, 2, 8, 9)
    with pytest.raises(Violation, match="nonmonotonic poll: 0/8 after 0/9"):
        again.check()
    ahead = history(simulation)
    ahead.committed("two", TP, 20)
    with pytest.raises(Violation, match="commit ahead: 0/20 is committed"):
        ahead.check()


def test_owners_count_only_if_they_certainly_owned_it(simulation: Simulation) -> None:
    for certain in (True, False):
        both = History(simulation, judged=True)
        both.assigned(1, [TP])
        simulation.sleep(10)
        both.assigned(2, [TP])
        simulation.sleep(10)
        both.released(1, [TP], certain=certain)
        both.released(2, [TP], certain=True)
        if certain:
            with pytest.raises(Violation, match="two owners"):
                both.check()
        else:
            both.check()


def test_where_records_vanish_nothing_is_proven(simulation: Simulation) -> None:
    gone = history(simulation, judged=False)
    read(gone, 2, 8, 9)
    gone.check()
