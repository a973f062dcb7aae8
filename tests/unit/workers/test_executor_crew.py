"""Calls in an executor: each record is done once, whenever its call ends, and none is forgotten."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tandem_kafka.runtime import Random
from tandem_kafka.types import ConsumerRecord, PositionStart, TopicPartition
from tandem_kafka.workers import Retry
from tandem_kafka.workers.done_map import DoneMap
from tandem_kafka.workers.executors import ExecutorCrew
from tandem_kafka.workers.settings import WorkerSettings
from tandem_kafka.workers.workload import Workload
from tandem_kafka_testing.clock import SimClock

pytestmark = pytest.mark.real_time

TP = TopicPartition("orders", 0)
WORKERS = 2


class ScriptedExecutor(Executor):
    """Ends calls inside `submit`, or when the test says so."""

    def __init__(self) -> None:
        self._max_workers = WORKERS
        self.at_once = False
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        if self.at_once:
            self.end(len(self.waiting) - 1)
        return future

    def end(self, index: int) -> None:
        future, call = self.waiting[index]
        del self.waiting[index]
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - as executors do
            future.set_exception(error)
        else:
            future.set_result(result)


class NoDriver:
    """Nobody waits."""

    def notify(self) -> None:
        """Do nothing."""


class ExecutorMachine(RuleBasedStateMachine):
    """Records of one partition are handled; some calls fail, some are taken back."""

    @initialize(order=st.sampled_from(["key", "none"]))
    def begin(self, order: Any) -> None:
        self.executor, self.clock = ScriptedExecutor(), SimClock()
        self.admitted, self.handled = 0, list[int]()
        self.failing = False
        settings = WorkerSettings(
            handle=self.handle,
            order=order,
            key=None,
            workers=self.executor,
            batch=1,
            max_in_flight=1_000,
            retry=Retry(None, backoff_ms=(10, 10)),
            exhausted="stop",
            commit_interval_ms=1_000,
            drain_timeout_ms=1_000,
            metadata_limit_bytes=4_096,
            listener=None,
            pattern=None,
        )
        self.workload = Workload(settings, self.clock, Random(1), threading.Lock())
        self.crew = ExecutorCrew(self.workload, settings, NoDriver())  # type: ignore[arg-type]
        self.workload.assign([TP])
        self.workload.restore(self.workload.parts[TP], None, DoneMap())

    def handle(self, record: Any) -> None:
        if self.failing:
            raise ValueError("again")
        self.handled.append(record.offset)

    @rule(count=st.integers(1, 20), at_once=st.booleans())
    def admit(self, count: int, at_once: bool) -> None:
        offsets = range(self.admitted, self.admitted + count)
        self.admitted += count
        records = [
            ConsumerRecord("orders", 0, 0, o, 0, 0, b"%d" % (o % 5), b"", [], None, 1, 0, -1)
            for o in offsets
        ]
        self.executor.at_once = at_once
        with self.workload.lock:
            self.workload.admit({TP: records}, {}, {TP: PositionStart(offsets.start)})
        self.crew.dispatch()

    @rule(index=st.integers(0, 2 * WORKERS), failing=st.booleans(), at_once=st.booleans())
    def end_one(self, index: int, failing: bool, at_once: bool) -> None:
        """A call ends; those that follow may end inside `submit`."""
        self.failing, self.executor.at_once = failing, at_once and not failing
        if index < len(self.executor.waiting):
            self.executor.end(index)
        self.failing = False

    @rule()
    def pass_time(self) -> None:
        self.clock.advance_to(self.clock.now_ms() + 20)
        self.crew.dispatch()

    @rule()
    def drain(self) -> None:
        """The partition is revoked and assigned again; what was not begun is taken back."""
        with self.workload.lock:
            parts = self.workload.drop_queued([TP])
            parts[0].draining = True
        self.crew.cancel(parts)
        assert parts[0].running == 0, "no call has begun"
        with self.workload.lock:
            self.workload.assign([TP])
            self.workload.restore(self.workload.parts[TP], None, DoneMap())
        self.handled, self.admitted = [], 0

    @invariant()
    def whatever_was_submitted_is_under_way(self) -> None:
        if not hasattr(self, "crew"):
            return
        under_way = [future for future, _ in self.executor.waiting if not future.cancelled()]
        assert set(self.crew._submitted) == set(under_way)
        assert len(under_way) <= 2 * WORKERS
        assert self.workload.parts[TP].running == len(under_way)
        assert not self.crew._taken_back
        assert self.workload.failure is None

    def teardown(self) -> None:
        """At last, everything is done, and once."""
        if not hasattr(self, "crew"):
            return
        self.pass_time()
        while self.executor.waiting:
            self.executor.end(0)
        assert sorted(self.handled) == list(range(self.admitted))
        assert self.workload.in_flight == 0


TestExecutorCrew = ExecutorMachine.TestCase
