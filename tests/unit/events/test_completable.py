"""Completions, and the reaper that enforces their deadlines."""

from __future__ import annotations

import pytest
from kafka.errors import LeaderNotAvailableError, UnknownTopicIdError

from tandem_kafka.errors import KafkaConnectionError, KafkaTimeoutError
from tandem_kafka.events.application import CommitSync, Poll, UpdatePositions
from tandem_kafka.events.completable import NO_DEADLINE_MS, CompletableEventReaper, Completion
from tandem_kafka.types import TopicPartition

A0, A1, B0 = TopicPartition("A", 0), TopicPartition("A", 1), TopicPartition("B", 0)


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
    reaper = CompletableEventReaper()
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


def reason_of(event: CommitSync | UpdatePositions, *troubles: str) -> str:
    """Let an event time out; return the text after the operation."""
    reaper = CompletableEventReaper()
    reaper.watch(event)
    reaper.reap(event.deadline_ms, lambda: troubles)
    assert isinstance(event.future.error, KafkaTimeoutError)
    return str(event.future.error.args[0]).partition(" did not finish in time: ")[2]


def test_a_timeout_names_the_last_error_of_each_partition() -> None:
    event = CommitSync(deadline_ms=100, offsets={})
    lost = KafkaConnectionError("node 1: cut")
    event.last_errors.update({B0: UnknownTopicIdError(), A1: lost, A0: UnknownTopicIdError()})
    assert reason_of(event) == (
        "A-0, B-0: UNKNOWN_TOPIC_ID (the partition does not exist, or this client may not see it; "
        "check the name, create the topic, or grant Describe on it); A-1: KafkaConnectionError: "
        "node 1: cut"
    )
    assert isinstance(event.future.error, KafkaTimeoutError)
    assert isinstance(event.future.error.__cause__, UnknownTopicIdError)


def test_a_timeout_of_position_names_the_error_of_its_partition_alone() -> None:
    event = UpdatePositions(deadline_ms=100, partition=A0)
    event.lookups.append({A0: LeaderNotAvailableError(), B0: UnknownTopicIdError()})
    assert reason_of(event, "node 1 is down") == "node 1 is down; A-0: LEADER_NOT_AVAILABLE"


def test_a_timeout_without_a_known_cause_asks_for_more_time() -> None:
    event = CommitSync(deadline_ms=100, offsets={})
    assert reason_of(event) == "no broker is known to fail, so allow more time"


def test_completed_events_are_not_failed() -> None:
    reaper = CompletableEventReaper()
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
    reaper = CompletableEventReaper()
    events = [Poll(deadline_ms=NO_DEADLINE_MS) for _ in range(3)]
    for event in events:
        reaper.watch(event)
    events[0].future.complete(None)
    reaper.fail_all(ValueError("closed"))
    assert [type(event.future.error) for event in events] == [type(None), ValueError, ValueError]
    assert reaper.watched() == ()
