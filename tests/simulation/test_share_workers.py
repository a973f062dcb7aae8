"""The end of ShareWorkers after Ctrl-C."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from tandem_kafka import ShareConsumer
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.workers import Retry, ShareWorkers, share_attempts
from tandem_kafka.workers.share_attempts import ShareAttempts
from tandem_kafka.workers.share_control import ShareControl
from tests.scenarios.numbered_records import produce
from tests.simulation.sharing import (
    LOCK_MS,
    TP,
    delete_group,
    in_work,
    places,
    sharing,
    take,
)
from tests.simulation.simulated_workers import KINDS, share_workers
from tests.tier import bytecodes
from tests.unit.interrupts import UNAWAITED, Interrupter, coroutines_end_here
from tests.waiting import wait_until

__all__ = ["coroutines_end_here"]

RELEASED = [(0, 2), (1, 2), (2, 2)]


def test_records_that_were_not_submitted_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C came between poll() and the threads, and their locks were renewed for 10 minutes."""
    with sharing("submit", brokers=1) as (simulation, start):

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(ShareAttempts, "admit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ShareWorkers(start(), print).run()
        began_ms = simulation.clock.now_ms()
        assert places(take(start(), 3)) == RELEASED
        assert simulation.clock.now_ms() - began_ms < LOCK_MS // 2


def test_a_second_interrupt_ends_the_wait_for_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It left their records locked."""
    begun, end = threading.Barrier(4), threading.Event()

    def handle(_: Any) -> None:
        begun.wait(60)
        end.wait(60)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ShareControl, "_drained", interrupted)
    with sharing("drain", brokers=1) as (simulation, start):
        try:
            workers = ShareWorkers(start(), handle, workers=3)
            with pytest.raises(KeyboardInterrupt):
                workers.run(lambda: in_work(workers)[0] == 3 and begun.wait(60) >= 0)
            began_ms = simulation.clock.now_ms()
            assert places(take(start(), 3)) == RELEASED
            assert simulation.clock.now_ms() - began_ms < LOCK_MS // 2
        finally:
            end.set()


def test_what_the_end_of_a_run_could_not_release_the_next_one_releases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C came twice inside of release_all(); the locks were renewed for 10 minutes."""
    interrupts = [KeyboardInterrupt, KeyboardInterrupt]
    release_all = ShareConsumer.release_all

    def interrupted(consumer: Any) -> None:
        if interrupts:
            raise interrupts.pop()
        release_all(consumer)

    monkeypatch.setattr(ShareConsumer, "release_all", interrupted)
    counts: list[int] = []
    with sharing("release", brokers=1) as (simulation, start):
        retry = Retry(2, (600_000, 600_000))

        def handle(record: Any) -> None:
            if record.delivery_count == 1:
                raise ValueError
            counts.append(record.delivery_count)

        workers = ShareWorkers(start(), handle, workers=3, retry=retry)
        with pytest.raises(KeyboardInterrupt):
            workers.run(lambda: in_work(workers) == (0, True))
        end_ms = simulation.clock.now_ms() + LOCK_MS // 2
        workers.run(lambda: len(counts) == 3 or simulation.clock.now_ms() > end_ms)
        assert counts == [2, 2, 2]


def test_a_loop_keeps_its_records_after_a_run_whose_end_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the loop got first was released with what the run had left locked."""

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with sharing("loop after run", brokers=1, count=30) as (simulation, start):
        consumer = start()
        for count in (30, 2):
            for record in take(consumer, count, max_records=count):
                record.accept()
            produce(simulation, TP, 300)
            simulation.sleep(500)
        assert consumer._parts.records.waiting() > 3
        workers = ShareWorkers(consumer, print, workers=3)
        with monkeypatch.context() as patch:
            patch.setattr(ShareAttempts, "admit", interrupted)
            patch.setattr(ShareConsumer, "release_all", interrupted)
            with pytest.raises(KeyboardInterrupt):
                workers.run()
        for record in [next(consumer) for _ in range(4)]:
            record.accept()


def test_handlers_may_finish_though_two_others_end_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one ended the wait for the third."""
    begun, first, go = threading.Barrier(3), threading.Event(), threading.Event()
    seen: list[int] = []

    def handle(record: Any) -> None:
        begun.wait(60)
        if record.offset == 2:
            go.wait(60)
            seen.append(record.offset)
        elif record.offset == 1:
            first.wait(60)
            raise SystemExit(1)
        else:
            raise SystemExit(0)

    settle = ShareAttempts.settle

    def settled(attempts: ShareAttempts, *outcome: Any) -> None:
        settle(attempts, *outcome)
        left = len(attempts.running)
        if left == 2:
            first.set()
        elif left == 1:
            go.set()

    monkeypatch.setattr(ShareAttempts, "settle", settled)
    with sharing("two failures", brokers=1) as (_, start):
        workers = ShareWorkers(start(), handle, workers=3)
        with pytest.raises(SystemExit, match="0"):
            workers.run()
        assert seen == [2]
        assert workers.done == 1


def test_what_ended_a_run_is_raised_though_the_brokers_do_not_answer() -> None:
    """commit() at the end put its KafkaTimeoutError in the place of SystemExit."""
    with sharing("silent", brokers=1) as (simulation, start):

        def handle(_: Any) -> None:
            simulation.cluster.pause(1)
            raise SystemExit

        with pytest.raises(SystemExit):
            ShareWorkers(start(default_api_timeout_ms=1_000), handle, workers=1).run()
        simulation.cluster.resume(1)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_what_ended_a_drain_is_raised_though_the_brokers_do_not_answer(
    monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    """The run had been stopped before, so commit() put its KafkaTimeoutError in the place."""
    begun, go = threading.Barrier(2), threading.Event()

    def handle(record: Any) -> None:
        if record.offset == 1:
            begun.wait(60)
            go.wait(60)
            if raised is SystemExit:
                raise SystemExit

    drained = ShareControl._drained

    async def interrupted(*arguments: Any) -> bool:
        go.set()
        if raised is KeyboardInterrupt:
            raise KeyboardInterrupt
        return await drained(*arguments)

    monkeypatch.setattr(ShareControl, "_drained", interrupted)
    with sharing("silent drain", brokers=1) as (simulation, start):
        workers = ShareWorkers(start(), handle, workers=3, drain_timeout_ms=1_000)

        def ends() -> bool:
            if workers.done == 2:
                begun.wait(60)
                simulation.cluster.pause(1)
                return True
            return False

        with pytest.raises(raised):
            workers.run(ends)
        simulation.cluster.resume(1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_a_run_waits_for_the_brokers_no_longer_than_for_handlers(kind: str) -> None:
    """It waited for default_api_timeout_ms."""
    options: dict[str, Any] = {"workers": 1, "drain_timeout_ms": 1_000}
    with (
        sharing("dead", brokers=1) as (simulation, start),
        share_workers(kind, simulation, start, lambda _: None, **options) as workers,
    ):

        def ends() -> bool:
            if workers.done:
                simulation.cluster.pause(1)
            return bool(workers.done)

        with pytest.raises(KafkaTimeoutError):
            workers.run(ends)
        began_ms = simulation.clock.now_ms()
        with pytest.raises(KafkaTimeoutError):
            workers.run(lambda: True)
        assert simulation.clock.now_ms() - began_ms < 6_000
        simulation.cluster.resume(1)


def test_a_handler_that_outlasts_its_run_takes_no_thread_of_the_next() -> None:
    """The next run counted it as busy, and never polled."""
    late, handled = threading.Event(), [0]

    def handle(record: Any) -> None:
        if record.delivery_count == 1:
            late.wait(60)
        handled[0] += 1

    with sharing("outlasts", brokers=1, count=1) as (simulation, start):
        workers = ShareWorkers(start(), handle, workers=1, drain_timeout_ms=0)
        workers.run(lambda: in_work(workers)[0] == 1)
        end_ms = simulation.clock.now_ms() + LOCK_MS // 2
        try:
            workers.run(lambda: workers.done == 1 or simulation.clock.now_ms() > end_ms)
            assert handled == [1]
        finally:
            late.set()


def test_a_run_that_cannot_start_its_threads_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    start_thread, started = threading.Thread.start, []

    def few(thread: threading.Thread) -> None:
        if "kafka-worker" in thread.name:
            if len(started) == 3:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start_thread(thread)

    with sharing("threads", brokers=1) as (_, start):
        workers = ShareWorkers(start(), print)
        monkeypatch.setattr(threading.Thread, "start", few)
        with pytest.raises(RuntimeError, match="can't start"):
            workers.run()
        for thread in started:
            thread.join(30)
            assert not thread.is_alive()


def test_what_waits_for_another_attempt_is_forgotten_with_its_run() -> None:
    """It is released; the next run gets it with its next delivery."""
    calls: list[tuple[int, int]] = []

    def handle(record: Any) -> None:
        calls.append((record.offset, record.delivery_count))
        if len(calls) == 1:
            raise ValueError

    with sharing("waiting", brokers=1, count=1) as (_, start):
        retry = Retry(2, backoff_ms=(600_000, 600_000))
        workers = ShareWorkers(start(), handle, workers=1, retry=retry)
        workers.run(lambda: in_work(workers)[1])
        workers.run(lambda: workers.done == 1)
        assert calls == [(0, 1), (0, 2)]


def test_what_the_handler_acknowledged_itself_does_not_count_as_accepted() -> None:
    handled: list[int] = []

    def handle(record: Any) -> None:
        if record.offset == 1:
            record.reject()
        handled.append(record.offset)

    with sharing("own", brokers=1) as (_, start):
        workers = ShareWorkers(start(), handle, workers=2)
        workers.run(lambda: len(handled) == 3)
        assert workers.done == 2


def test_a_record_that_its_handler_has_released_is_not_tried_again() -> None:
    """It was handled under two delivery counts at once."""
    calls: list[tuple[int, int]] = []

    def handle(record: Any) -> None:
        calls.append((record.offset, record.delivery_count))
        record.release()
        raise ValueError("on its way to somebody else")

    with sharing("released", brokers=1) as (_, start):
        workers = ShareWorkers(start(), handle, workers=3, retry=Retry(None, backoff_ms=(1, 1)))
        workers.run(lambda: len(calls) > 8)
        assert len(calls) == len(set(calls))


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_handled_is_not_used_up_while_its_function_fails(kind: str) -> None:
    """It was released each time, and after five deliveries there was no dead letter of it."""
    calls: list[int] = []

    def handle(_: Any) -> None:
        raise ValueError

    def report(record: Any, _: Exception, attempts: int) -> None:
        assert attempts == 8
        calls.append(record.delivery_count)
        if len(calls) < 8:
            raise ConnectionError

    # Threads need real time, and meanwhile hours may pass in the simulation.
    options: dict[str, Any] = {
        "retry": Retry(8, (1, 1)),
        "otherwise": report,
        "max_processing_ms": 10**9,
    }
    with (
        sharing("letters", brokers=1, count=1) as (simulation, start),
        share_workers(kind, simulation, start, handle, **options) as workers,
    ):
        workers.run(lambda: workers.done == 1 or max(calls, default=0) > 1)
    assert calls == [1] * 8


def test_the_end_of_a_run_waits_for_no_further_call_of_a_function_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The record is released, and the log says why."""

    def handle(_: Any) -> None:
        raise ValueError

    def report(*_: Any) -> None:
        workers.stop()
        control = workers._control
        assert control is not None
        part = control._workload.part
        wait_until(lambda: part.draining)
        raise ConnectionError

    with sharing("last letters", brokers=1, count=1) as (_, start):
        retry = Retry(2, (1, 600_000))
        workers = ShareWorkers(start(), handle, retry=retry, otherwise=report)
        workers.run()
        assert len(take(start(), 1)) == 1
    assert "otherwise() failed (1), so the record at offset 0" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_is_used_up_while_many_wait_for_another_attempt(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was above the limit came back at once, five times, and nobody got it again."""
    monkeypatch.setattr(share_attempts, "MOST_WAITING", 4)
    calls: list[tuple[int, int]] = []
    looks = 0

    def handle(record: Any) -> None:
        calls.append((record.offset, record.delivery_count))
        raise ValueError("the database is down")

    def enough() -> bool:
        nonlocal looks
        looks += 1
        return looks > 60

    options: dict[str, Any] = {"workers": 2, "retry": Retry(2, (600_000, 600_000))}
    with sharing("used up", brokers=1, count=12) as (simulation, start):
        with share_workers(kind, simulation, start, handle, **options) as workers:
            workers.run(enough)
        assert len(calls) in (4, 5)
        assert {count for _, count in calls} == {1}
        assert len(take(start(), 12)) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_was_deleted_is_joined_again(kind: str) -> None:
    """The run ended with an error."""
    handled: list[int] = []

    with sharing("deleted", brokers=1, count=1) as (simulation, start):

        def handle(record: Any) -> None:
            handled.append(record.offset)
            if record.offset == 0:
                delete_group(simulation)
                produce(simulation, TP, 1)

        with share_workers(kind, simulation, start, handle, workers=1) as workers:
            end_ms = simulation.clock.now_ms() + 60_000
            workers.run(lambda: len(handled) == 2 or simulation.clock.now_ms() > end_ms)
        assert handled == [0, 1]


@UNAWAITED
def test_interrupts_inside_of_release_all_leave_no_record_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of them, one in each attempt: the records were locked until their locks ended."""
    release_all = ShareConsumer.release_all
    for at in bytecodes():
        interrupters = [Interrupter(at), Interrupter(at)]
        left = list(interrupters)

        def interrupted(consumer: Any, left: list[Any] = left) -> None:
            if left:
                left.pop().call(release_all, consumer)
            else:
                release_all(consumer)

        with sharing(f"release {at}", brokers=1) as (simulation, start):
            consumer = start()
            with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
                patched.setattr(ShareConsumer, "release_all", interrupted)
                _run_until_all_have_failed(consumer)
            began_ms = simulation.clock.now_ms()
            assert places(take(consumer, 3)) == RELEASED
            assert simulation.clock.now_ms() - began_ms < LOCK_MS // 2
        if interrupters[1].frame is None:  # the first one to be called
            assert at > 100
            return


def _run_until_all_have_failed(consumer: Any) -> None:
    """Then they wait for their next attempt."""

    def handle(_: Any) -> None:
        raise ValueError

    retry = Retry(2, (600_000, 600_000))
    workers = ShareWorkers(consumer, handle, workers=3, retry=retry)
    workers.run(lambda: in_work(workers) == (0, True))
