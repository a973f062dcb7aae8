"""Callbacks of asynchronous commits run on the application thread, once and in order."""

from __future__ import annotations

import dis
from contextlib import suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.future import Future

from tandem_kafka.config import Config
from tandem_kafka.consumer.commit_future import CommitFuture
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.reading.interceptors import Interceptors
from tandem_kafka.errors import KafkaError
from tandem_kafka.events.application import AutoCommit, CommitAsync
from tandem_kafka.events.completable import Completion
from tandem_kafka.runtime.callers import OwnerLock
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tests.unit.interrupts import Interrupter

TP = TopicPartition("orders", 0)


class Core:
    """The part of a core that commits use; their events stay in `sent`."""

    def __init__(self) -> None:
        self.config = Config.from_options({"group_id": "readers"})
        self.clock = SimpleNamespace(now_ms=lambda: 0)
        self.callers = SimpleNamespace(lock=OwnerLock)
        self.elsewhere: list[Any] = []
        self.driver = SimpleNamespace(offload=lambda work, _: self.elsewhere.append(work))
        self.sent: list[CommitAsync] = []
        self.engine = SimpleNamespace(
            queue=SimpleNamespace(add=self.sent.append), subscription=SubscriptionState()
        )


class Committing:
    """Asynchronous commits of the offsets 1, 2 and 3, and the callbacks that have run."""

    def __init__(self) -> None:
        self.core = Core()
        self.told: list[tuple[int, object]] = []
        self.commits = Commits(self.core, Interceptors([]))  # type: ignore[arg-type]
        self.futures = [self.commits.commit_async(at(n), self.tell) for n in (1, 2, 3)]

    def tell(self, offsets: Any, error: object) -> None:
        self.told.append((offsets[TP].offset, error))

    def done(self, number: int) -> None:
        self.core.sent[number - 1].future.complete(None)


def at(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TP: OffsetAndMetadata(offset, "", -1)}


@pytest.mark.behaviour(119)
def test_callbacks_run_in_the_order_of_commits_not_responses() -> None:
    committing = Committing()
    commits = committing.commits
    committing.done(3)
    committing.done(2)
    assert not commits.waiting
    commits.run_callbacks()
    assert committing.told == []
    assert [future.is_done for future in committing.futures] == [False, True, True]
    committing.done(1)
    assert commits.waiting
    commits.run_callbacks()
    assert committing.told == [(1, None), (2, None), (3, None)]
    assert all(future.is_done for future in committing.futures)
    commits.run_callbacks()
    assert len(committing.told) == 3


def test_callbacks_stay_in_order_if_one_commits_again() -> None:
    committing = Committing()
    told = committing.told

    def commit_again(offsets: Any, error: object) -> None:
        committing.tell(offsets, error)
        committing.commits.run_callbacks()  # as commit() does

    committing.commits._pending[0].callback = commit_again
    for number in (1, 2, 3):
        committing.done(number)
    committing.commits.run_callbacks()
    assert [offset for offset, _ in told] == [1, 2, 3]


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt])
def test_a_callback_that_raises_is_not_called_again(raised: type[BaseException]) -> None:
    committing = Committing()

    def fail(offsets: Any, error: object) -> None:
        committing.tell(offsets, error)
        raise raised

    committing.commits._pending[0].callback = fail
    committing.core.sent[0].future.fail(KafkaError("no"))
    committing.done(2)
    with pytest.raises(raised):
        committing.commits.run_callbacks()
    committing.commits.run_callbacks()
    assert [offset for offset, _ in committing.told] == [1, 2]
    assert committing.futures[0].failed()
    assert committing.futures[1].succeeded()


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("error", [None, KafkaError("rejected")], ids=["success", "failure"])
def test_what_a_function_of_a_future_raises_is_logged_as_by_kafka_python(
    error: KafkaError | None, early: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise ValueError

    completion: Completion[None] = Completion()
    ours, theirs = CommitFuture(completion, at(1)), Future()
    if early:
        ours.add_both(fails)
    if error is None:
        completion.complete(None)
        theirs.success(at(1))
    else:
        completion.fail(error)
        theirs.failure(error)
    if not early:
        ours.add_both(fails)
    ours.settle()
    theirs.add_both(fails)
    by_ours, by_theirs = ((each.name, each.levelno, each.msg) for each in caplog.records)
    assert by_ours == by_theirs


def test_an_interrupt_leaves_no_future_locked() -> None:
    """At the beginning of any function, where CPython runs signal handlers."""
    places = 0
    for number in count():
        completion: Completion[None] = Completion()
        future = CommitFuture(completion, at(1))
        interrupter = Interrupter(number)
        with suppress(KeyboardInterrupt):
            interrupter.call(future.add_callback, id)
            completion.complete(None)
            interrupter.call(future.settle)
        if (frame := interrupter.frame) is None:
            break
        if frame.f_code.co_code[interrupter.instruction - 2] == dis.opmap["RESUME"]:
            places += 1
            assert not future._lock.locked(), frame
    assert places >= 4


def test_a_future_ends_with_its_commit_and_runs_callbacks_on_another_thread() -> None:
    committing = Committing()
    first, second, third = committing.futures
    called: list[object] = []
    first.add_callback(called.append)
    second.add_errback(called.append)
    committing.done(1)
    error = KafkaError("no")
    committing.core.sent[1].future.fail(error)
    committing.done(3)
    assert (first.is_done, first.succeeded(), first.value) == (True, True, at(1))
    assert (second.failed(), second.exception, second.value) == (True, error, None)
    assert called == [], "the network thread runs no callbacks"
    assert len(committing.core.elsewhere) == 2, "the third commit has no callback"
    for work in committing.core.elsewhere:
        work()
    assert called == [at(1), error]
    committing.commits.run_callbacks()
    assert called == [at(1), error], "each callback runs once"
    third.add_callback(called.append)
    assert called[-1] == at(3), "a completed future calls back immediately"


def test_a_callback_of_auto_commits_that_commits_runs_once_per_commit() -> None:
    committing = Committing()
    told: list[int] = []

    def commit_again(offsets: Any, _: object) -> None:
        told.append(offsets[TP].offset)
        committing.commits.run_callbacks()  # as commit() does

    options = {"group_id": "readers", "default_offset_commit_callback": commit_again}
    committing.core.config = Config.from_options(options)
    for number in (7, 8):
        event = AutoCommit(offsets=at(number), topic_ids={})
        event.future.complete(None)
        committing.commits._automatic.append(event)
    committing.commits.run_callbacks()
    assert told == [7, 8]
