"""Another thread calls the consumer before every single bytecode of poll() and consume().

Each message comes once, to one of the callers. CPython switches threads only where it also runs
signal handlers. So none comes between the comparison that finds `given` unchanged and the return.
"""

from __future__ import annotations

import dis
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Their

from tandem_kafka import confluent
from tandem_kafka.confluent import Consumer
from tandem_kafka.errors import ConcurrentModificationError
from tandem_kafka_testing import Simulation
from tests.tier import bytecodes
from tests.unit.confluent.simulated import offsets, polled
from tests.unit.confluent.test_reading import A, fill, reading, simulation
from tests.unit.interrupts import UNAWAITED, Interrupter, coroutines_end_here

__all__ = ["coroutines_end_here", "simulation"]

pytestmark = UNAWAITED

PART = [Their("t", 0)]
Call = Callable[[Consumer], Any]


def outside(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(str(Path(confluent.__file__).parent))


class Beside:
    """Calls a consumer on a thread of its own, and waits for the end of the call."""

    def __init__(self, consumer: Consumer, call: Call) -> None:
        self._consumer, self._call = consumer, call
        self.found: list[Any] = []

    def __call__(self) -> None:
        thread = threading.Thread(target=self._run)
        thread.start()
        thread.join()

    def _run(self) -> None:
        lock: Any = self._consumer._taken._lock
        if not lock.acquire(blocking=False):
            return  # it would wait until the first caller has released it
        lock.release()
        try:
            found = self._call(self._consumer)
        except ConcurrentModificationError:
            return
        self.found += found if isinstance(found, list) else [] if found is None else [found]


def behind_comparison(function: Any) -> tuple[int, int]:
    """Return the offsets of the last two reads of `given` and `drops`, and of the store."""
    code = list(dis.get_instructions(function))
    store = next(each.offset for each in code if each.opname == "STORE_ATTR")
    reads = [each for each in code if each.opname == "LOAD_ATTR" and each.offset < store]
    assert [each.argval for each in reads[-2:]] == ["given", "drops"]
    return reads[-2].offset, store


WINDOWS = {each.__code__: behind_comparison(each) for each in (Consumer.poll, Consumer.consume)}


def impossible(interrupter: Interrupter) -> bool:
    """Tell whether CPython switches no thread there."""
    if interrupter.frame is None:
        return False
    read, store = WINDOWS.get(interrupter.frame.f_code, (0, -1))
    return read < interrupter.instruction <= store


def at_once(consumer: Consumer) -> Any:
    """As if no other work were due."""
    consumer._reader.serve_ms = consumer._now_ms() + 50
    return consumer.poll(0.05)


@pytest.mark.parametrize(
    "second",
    [
        lambda c: c.poll(0),
        lambda c: c.consume(2, 0),
        lambda c: (c.pause(PART), c.resume(PART))[0],
        lambda c: c.position(PART)[1:],
    ],
    ids=["poll", "consume", "pause", "position"],
)
@pytest.mark.parametrize(
    "first",
    [at_once, lambda c: c.poll(0.05), lambda c: c.consume(2, 0.05)],
    ids=["poll at once", "poll", "consume"],
)
def test_each_message_comes_to_one_caller(
    simulation: Simulation, first: Call, second: Call
) -> None:
    consumer, begin = reading(simulation, A, enable__auto__commit=False), 0
    for at in bytecodes():
        fill(simulation, 4)
        simulation.sleep(30)
        beside = Beside(consumer, second)
        interrupter = Interrupter(at, beside, skip=outside)
        found = interrupter.call(first, consumer)
        messages = found if isinstance(found, list) else [found]
        messages += polled(consumer, 5, 0.05)
        if interrupter.frame is None:
            break
        if impossible(interrupter):
            consumer.seek(Their("t", 0, begin + 4))
        else:
            where = f"{at}: {interrupter.frame.f_code.co_name}:{interrupter.frame.f_lineno}"
            came = [message for message in (*messages, *beside.found) if message is not None]
            wanted = [(0, offset) for offset in range(begin, begin + 4)]
            assert sorted(offsets(came), key=str) == sorted(wanted, key=str), where
        begin += 4
    assert at > 50
