"""Members of the share group in the chaos tests are slow only while there are faults.

Otherwise a group of slow members leaves a backlog that looks like lost records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.runtime import Random
from tests.chaos.share_member import KINDS, Reporter
from tests.histories.share_events import Event

RECORDS = 2_000


class Record:
    partition = 0
    delivery_count = 1
    lock_deadline_ms = 0

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def accept(self) -> None: ...

    release = reject = renew = accept


class Group:
    """Gives records to the consumers that a member makes, and ends the member after the last."""

    def __init__(self, reporter: Reporter) -> None:
        self.made = 0
        self._reporter = reporter
        self._offsets = iter(range(RECORDS))

    def __call__(self, **_options: Any) -> Group:
        self.made += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        for offset in self._offsets:
            return Record(offset)
        self._reporter.end()
        raise StopIteration

    def poll(self, _timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        return {TopicPartition("", 0): [record] for record in [next(self, None)] if record}

    def commit(self, _timeout_ms: int) -> dict[TopicPartition, None]:
        return {}


class Waits:
    """An event on which waits take no time."""

    def __init__(self, *, is_set: bool) -> None:
        self.set_now = is_set
        self.waits = 0

    def wait(self, _seconds: float) -> None:
        self.waits += not self.set_now

    def is_set(self) -> bool:
        return self.set_now

    def set(self) -> None:
        self.set_now = True


def reporting(*, calm: bool) -> tuple[Any, list[Event]]:
    reporter, events = Reporter(), list[Event]()
    reporter.write = events.append
    reporter.random = Random(7)
    reporter.calm = Waits(is_set=calm)
    return reporter, events


def run(kind: str, *, calm: bool) -> tuple[Waits, Group, list[Event]]:
    reporter, events = reporting(calm=calm)
    group = Group(reporter)
    KINDS[kind](group, reporter)
    return reporter.calm, group, events


@pytest.mark.parametrize("kind", ["explicit", "slow"])
def test_a_handler_is_slow_only_while_there_are_faults(kind: str) -> None:
    assert run(kind, calm=False)[0].waits > 0
    waits, _, events = run(kind, calm=True)
    assert waits.waits == 0
    accepted = {offset for each in events if each.kind != "got" for _, offset, *_ in each.places}
    assert accepted == set(range(RECORDS))


def test_workers_report_each_delivery_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = Record(5), Record(5)  # the broker has lost the first count

    class Workers:
        def __init__(self, _consumer: Group, handle: Any, *, otherwise: Any, **_: Any) -> None:
            self._handle, self._otherwise = handle, otherwise

        def run(self, **_: Any) -> None:
            for record in (first, again):
                try:
                    self._handle(record)
                except ValueError:
                    self._otherwise(record, None)
            reporter.end()

    monkeypatch.setattr("tests.chaos.share_member.ShareWorkers", Workers)
    reporter, events = reporting(calm=True)
    KINDS["workers"](Group(reporter), reporter)
    assert [each.kind for each in events] == ["got", "accept", "got", "accept"]


def test_a_job_ends_only_while_there_are_faults() -> None:
    assert run("jobs", calm=False)[1].made > RECORDS / 3
    assert run("jobs", calm=True)[1].made == 1
