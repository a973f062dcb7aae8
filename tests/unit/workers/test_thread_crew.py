"""Threads that take tasks: all are handled once, in order, without delays by slow calls."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import ConsumerRecord, PositionStart, TopicPartition
from tandem_kafka.workers import Retry
from tandem_kafka.workers.done_map import DoneMap
from tandem_kafka.workers.settings import WorkerSettings
from tandem_kafka.workers.threads import ThreadCrew, new_lock
from tandem_kafka.workers.workload import Workload
from tests.waiting import wait_until

pytestmark = pytest.mark.real_time

TP = TopicPartition("orders", 0)

Begin = Callable[..., tuple[Workload, ThreadCrew]]


@pytest.fixture
def begin() -> Iterator[Begin]:
    crews: list[ThreadCrew] = []
    runtime = Runtime.threaded()

    def make(handle: Any, workers: int, **options: Any) -> tuple[Workload, ThreadCrew]:
        settings = WorkerSettings(
            handle=handle,
            order="key",
            key=options.get("key"),
            workers=workers,
            batch=options.get("batch", 1),
            max_in_flight=100_000,
            retry=options.get("retry", Retry()),
            exhausted=options.get("exhausted", "stop"),
            commit_interval_ms=1_000,
            drain_timeout_ms=1_000,
            metadata_limit_bytes=4_096,
            listener=None,
            pattern=None,
        )
        workload = Workload(settings, runtime.clock, Random(1), new_lock())
        crew = ThreadCrew(workload, settings, runtime.clock, runtime.driver)
        crews.append(crew)
        workload.assign([TP])
        workload.restore(workload.parts[TP], None, DoneMap())
        crew.start()
        return workload, crew

    yield make
    for crew in crews:
        run(crew.end(runtime.clock.now_ms() + 60_000))
        assert crew._alive == 0


def admit(workload: Workload, crew: ThreadCrew, offsets: range, keys: int) -> None:
    records = [
        ConsumerRecord("orders", 0, 0, o, 0, 0, b"%d" % (o % keys), b"", [], None, 1, 0, -1)
        for o in offsets
    ]
    with workload.lock:
        workload.admit({TP: records}, {}, {TP: PositionStart(offsets.start)})
    crew.dispatch()


@pytest.mark.parametrize(("workers", "keys"), [(1, 50), (8, 3), (8, 500)])
def test_every_record_is_handled_once_and_in_order(begin: Begin, workers: int, keys: int) -> None:
    handled: dict[bytes, list[int]] = defaultdict(list)
    inside: set[bytes] = set()
    overlaps: list[bytes] = []

    def handle(record: Any) -> None:
        if record.key in inside:
            overlaps.append(record.key)
        inside.add(record.key)
        handled[record.key].append(record.offset)
        inside.discard(record.key)

    workload, crew = begin(handle, workers)
    for start in range(0, 5_000, 500):
        admit(workload, crew, range(start, start + 500), keys)
    wait_until(lambda: workload.done == 5_000)
    assert not overlaps
    assert all(offsets == sorted(offsets) for offsets in handled.values())
    assert sum(map(len, handled.values())) == 5_000
    assert workload.in_flight == 0
    assert workload.parts[TP].running == 0


def test_a_slow_call_delays_no_record_that_its_thread_has_taken(begin: Begin) -> None:
    release, quick = threading.Event(), threading.Event()

    def handle(record: Any) -> None:
        if record.offset == 3_000:
            release.wait(20)
        elif record.offset > 3_900:
            quick.set()

    workload, crew = begin(handle, 2)
    admit(workload, crew, range(4_000), 4_000)
    wait_until(lambda: workload.done >= 3_980 or quick.is_set())
    wait_until(lambda: crew.dispatch() or workload.done == 3_999)
    release.set()
    wait_until(lambda: workload.done == 4_000)


def test_an_idle_thread_takes_back_what_a_slow_call_delays(begin: Begin) -> None:
    """Without `dispatch`, which comes with the next poll."""
    other, release = threading.Event(), threading.Event()
    slow: list[int] = []

    def handle(record: Any) -> None:
        if record.offset == 0:
            other.wait(20)
        elif not slow and any(hand.held for hand in crew._holders):
            slow.append(record.offset)
            other.set()
            release.wait(20)

    workload, crew = begin(handle, 2)
    admit(workload, crew, range(4_000), 4_000)
    try:
        wait_until(lambda: workload.done == 3_999)
        assert slow
    finally:
        release.set()
    wait_until(lambda: workload.done == 4_000)


def test_a_thread_that_takes_several_records_wakes_another(begin: Begin) -> None:
    """Each of two records waits for the other one, and calls were quick so far."""
    both = threading.Barrier(2, timeout=20)
    workload, crew = begin(lambda _: both.wait(), 2)
    for start in range(0, 100, 2):
        admit(workload, crew, range(start, start + 2), 100)
        wait_until(lambda: not workload.in_flight or workload.failure is not None)
        assert workload.failure is None


def test_what_is_done_before_a_slow_call_counts_while_that_goes_on(begin: Begin) -> None:
    """The only thread reports several calls together, so `dispatch` does it instead."""
    release = threading.Event()
    slow: list[int] = []

    def handle(record: Any) -> None:
        if any(hand.finished and hand.held for hand in crew._holders):
            slow.append(record.offset)
            release.wait(20)

    workload, crew = begin(handle, 1)
    admit(workload, crew, range(1_000), 1_000)
    try:
        wait_until(lambda: slow)
        assert workload.done < slow[0]
        crew.dispatch()  # looks
        crew.dispatch()  # nothing has begun since
        assert workload.done == slow[0]
    finally:
        release.set()
    wait_until(lambda: workload.done == 1_000)


def test_a_retry_wakes_a_thread_that_is_idle(begin: Begin) -> None:
    attempts: list[float] = []

    def handle(_: Any) -> None:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise ValueError("again")

    workload, crew = begin(handle, 4, retry=Retry(3, backoff_ms=(30, 60)))
    admit(workload, crew, range(1), 1)
    wait_until(lambda: workload.done == 1)
    assert attempts[1] - attempts[0] >= 0.024
    assert attempts[2] - attempts[1] >= 0.048


def test_a_slow_retry_delays_no_later_one(begin: Begin) -> None:
    """The thread that waits for the first retry is busy when the second one is due."""
    again = threading.Barrier(2, timeout=20)
    failed: set[int] = set()

    def handle(record: Any) -> None:
        if record.offset not in failed:
            failed.add(record.offset)
            raise ValueError("again")
        again.wait()  # for the other one

    workload, crew = begin(handle, 2, retry=Retry(2, backoff_ms=(50, 50)))
    admit(workload, crew, range(2), keys=2)
    wait_until(lambda: workload.done == 2 or workload.failure is not None)
    assert workload.failure is None


def test_a_batch_has_records_of_one_key(begin: Begin) -> None:
    batches: list[list[Any]] = []
    gate = threading.Event()

    def handle(records: list[Any]) -> None:
        gate.wait(20)
        batches.append(records)

    workload, crew = begin(handle, 1, batch=10)
    admit(workload, crew, range(100), 4)
    gate.set()
    wait_until(lambda: workload.done == 100)
    assert all(len({record.key for record in batch}) == 1 for batch in batches)
    assert max(map(len, batches)) == 10


def waiting_from(offset: int) -> tuple[Callable[[Any], None], threading.Event, threading.Event]:
    """Return a handler that waits from an offset on, whether it does, and a gate to open."""
    started, gate = threading.Event(), threading.Event()

    def handle(record: Any) -> None:
        if record.offset >= offset:
            started.set()
            gate.wait(20)

    return handle, started, gate


def test_a_drained_partition_loses_what_threads_have_taken(begin: Begin) -> None:
    handle, started, gate = waiting_from(50)
    workload, crew = begin(handle, 1)
    admit(workload, crew, range(200), 200)
    assert started.wait(20)
    with workload.lock:
        parts = workload.drop_queued([TP])
        parts[0].draining = True
    crew.cancel(parts)
    assert parts[0].running == 1
    gate.set()
    wait_until(lambda: parts[0].running == 0)
    assert workload.in_flight == 0
    assert workload.done == 51


def test_a_drain_is_told_of_the_last_call(begin: Begin) -> None:
    (handle, started, gate), waiter = waiting_from(0), threading.Lock()
    workload, crew = begin(handle, 1)
    admit(workload, crew, range(1), 1)
    assert started.wait(20)
    with workload.lock:
        workload.parts[TP].draining = True
    waiter.acquire()
    crew._driver.waiting.append(waiter)
    try:
        gate.set()
        assert waiter.acquire(timeout=20), "only a look now and then finds it"
    finally:
        crew._driver.waiting.remove(waiter)


def test_each_record_of_a_batch_is_reported(begin: Begin) -> None:
    letters: list[int] = []

    def handle(_: list[Any]) -> None:
        raise ValueError("broken")

    workload, crew = begin(
        handle, 1, batch=10, exhausted=lambda record, *_: letters.append(record.offset)
    )
    admit(workload, crew, range(30), keys=1)
    wait_until(lambda: workload.done == 30)
    assert letters == list(range(30))


class MutableKey:
    """A key whose hash changes, which Python does not allow in a dictionary."""

    def __init__(self) -> None:
        self.number = 0

    def __hash__(self) -> int:
        return self.number


def test_what_follows_a_call_ends_no_thread_if_it_fails(begin: Begin) -> None:
    """The threads ended one by one, the record was never done, and run() went on."""
    key = MutableKey()

    def handle(_: Any) -> None:
        key.number += 1

    workload, crew = begin(handle, 2, key=lambda _: key)
    admit(workload, crew, range(3), keys=1)
    wait_until(lambda: workload.failure is not None)
    assert isinstance(workload.failure, KeyError)
    assert crew._alive == 2
