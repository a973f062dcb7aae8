"""Completions, and the reaper that enforces their deadlines."""

from __future__ import annotations

import pytest

from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.events.application import CommitSync, Poll
from tandem_kafka.events.completable import NO_DEADLINE_MS, Completion, Reaper


def test_the_first_outcome_wins() -> None:
    future: Completion[int] = Completion()
    assert not future.done
    with pytest.raises(RuntimeError):
        future.result()
    future.complete(1)
    future.complete(2)
    future.fail(ValueError())
    assert future.result() == 1
    assert future.error is None


def test_an_error_is_raised_by_the_result() -> None:
    future: Completion[int] = Completion()
    future.fail(ValueError("no"))
    future.complete(1)
    assert future.done
    with pytest.raises(ValueError, match="no"):
        future.result()


def test_callbacks_run_once_and_in_order() -> None:
    future: Completion[int] = Completion()
    seen: list[str] = []
    future.then(lambda f: seen.append(f"first {f.result()}"))
    future.then(lambda f: seen.append(f"second {f.result()}"))
    future.complete(7)
    future.then(lambda f: seen.append(f"third {f.result()}"))
    assert seen == ["first 7", "second 7", "third 7"]


@pytest.mark.behaviour(37)
def test_overdue_events_fail_with_their_names() -> None:
    reaper = Reaper()
    late, early = CommitSync(deadline_ms=100, offsets={}), Poll(deadline_ms=200)
    reaper.watch(late)
    reaper.watch(early)
    assert reaper.next_deadline_ms() == 100
    assert reaper.reap(99) == 0
    assert reaper.reap(107, lambda: ["broker 1 is down", "broker 2 too"]) == 1
    assert isinstance(late.future.error, KafkaTimeoutError)
    assert late.future.error.args == (
        "commit() did not finish in time: broker 1 is down; broker 2 too",
    )
    assert reaper.next_deadline_ms() == 200
    assert reaper.watched() == (early,)
    assert reaper.forget_done() == 1
    assert reaper.reap(150) == 0


def test_completed_events_are_not_failed() -> None:
    reaper = Reaper()
    event = Poll(deadline_ms=100)
    reaper.watch(event)
    event.future.complete(None)
    assert reaper.reap(1_000) == 0
    assert event.future.error is None
    assert reaper.next_deadline_ms() == NO_DEADLINE_MS
    assert reaper.forget_done() == 1
    assert reaper.forget_done() == 0


@pytest.mark.behaviour(116)
def test_all_events_fail_at_the_end() -> None:
    reaper = Reaper()
    events = [Poll(deadline_ms=NO_DEADLINE_MS) for _ in range(3)]
    for event in events:
        reaper.watch(event)
    events[0].future.complete(None)
    reaper.fail_all(ValueError("closed"))
    assert [type(event.future.error) for event in events] == [type(None), ValueError, ValueError]
    assert reaper.watched() == ()
