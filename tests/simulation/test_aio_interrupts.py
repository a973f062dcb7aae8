"""A signal handler raises inside of a task, which goes on: others still read, change and wait."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.consumer import core as core_module
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.test_signal_handlers import runs_handlers
from tests.tier import bytecodes
from tests.unit.interrupts import UNAWAITED, coroutines_end_here

__all__ = ["coroutines_end_here"]

pytestmark = UNAWAITED


class InterruptError(Exception):
    """What the signal handler raises, as one of SIGALRM does that limits the time of a step."""


class Application:
    """A task that is interrupted once and goes on, and another one that comes behind it."""

    def __init__(self, simulation: Simulation, at: int) -> None:
        self.simulation = simulation
        self.read: list[tuple[TopicPartition, int]] = []
        self._left = at
        self._before: dict[FrameType, int] = {}
        self._task: asyncio.Task[Any] | None = None

    @property
    def interrupted(self) -> bool:
        return self._left < 0

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Raise at the chosen one of the places where CPython runs signal handlers."""
        del argument
        name = frame.f_globals.get("__name__", "")
        network = self.simulation.on_network_thread
        if self.interrupted or network or not name.startswith("tandem_kafka.consumer."):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if runs_handlers(frame, event, self._before) and asyncio.current_task() is self._task:
            self._left -= 1
            if self.interrupted:
                sys.settrace(None)
                self._before.clear()
                raise InterruptError
        return self._trace

    async def call(self, call: Callable[[], Any]) -> None:
        """Make a call that may be interrupted, and note what it returned."""
        sys.settrace(None if self.interrupted else self._trace)
        try:
            self.note(await call())
        except (InterruptError, StopAsyncIteration):
            pass
        finally:
            sys.settrace(None)

    def note(self, found: Any) -> None:
        """Note records, or one."""
        if not found:
            return
        records = [found] if hasattr(found, "offset") else [r for rs in found.values() for r in rs]
        self.read += [(TopicPartition(each.topic, each.partition), each.offset) for each in records]

    async def run(self, change: str, reading: str) -> None:
        simulation, loop = self.simulation, asyncio.get_running_loop()
        tps = create_topic(simulation, "orders", 2)
        for tp in tps:
            produce(simulation, tp, 2)
        async with simulation.async_consumer(
            auto_offset_reset="earliest", consumer_timeout_ms=200, default_api_timeout_ms=5_000
        ) as consumer:
            await consumer.assign(tps)
            batches = consumer.batches(max_records=3, max_wait_ms=20)
            calls: dict[str, Callable[[], Any]] = {
                "poll": lambda: consumer.poll(100, max_records=3),
                "iteration": lambda: anext(aiter(consumer)),
                "batches": lambda: anext(batches),
                "assign": lambda: consumer.assign(tps),
            }
            goes_on = asyncio.Event()

            async def reads() -> None:
                for each in (reading, change, reading, reading):
                    await self.call(calls[each])
                await goes_on.wait()

            self._task = asyncio.create_task(reads())
            await asyncio.sleep(2)
            began_s = loop.time()
            await consumer.assign(tps)
            while found := await consumer.poll(100):
                self.note(found)
            assert loop.time() < began_s + 1, "it waits for what was interrupted"
            goes_on.set()
            await asyncio.wait_for(self._task, 1)
        for tp in tps:
            offsets = [offset for of, offset in self.read if of == tp]
            assert offsets in ([0, 1], [1])  # an interrupt behind the return takes one record


@pytest.mark.parametrize(
    ("change", "reading"), [("poll", "poll"), ("iteration", "iteration"), ("assign", "batches")]
)
def test_a_task_that_goes_on_after_an_interrupt_keeps_no_lock(change: str, reading: str) -> None:
    for at in bytecodes():
        with Simulation(at) as simulation:
            application = Application(simulation, at)
            simulation.run(application.run(change, reading))
        if not application.interrupted:
            break
    assert at > 100


def test_a_change_that_is_interrupted_at_its_end_suspends_no_later_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise InterruptError

    async def run(simulation: Simulation) -> None:
        tps = create_topic(simulation, "orders", 1)
        async with simulation.async_consumer() as consumer:
            with monkeypatch.context() as patch, suppress(InterruptError):
                patch.setattr(core_module, "discard", interrupted)
                await consumer.assign(tps)
            assert consumer._core._suspending
            began_s = asyncio.get_running_loop().time()
            await asyncio.create_task(consumer.poll(100))
            assert asyncio.get_running_loop().time() < began_s + 1

    with Simulation("abandoned") as simulation:
        simulation.run(run(simulation))
