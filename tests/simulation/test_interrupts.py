"""Ctrl-C anywhere in poll() during a rebalance: the member continues without loss."""

from __future__ import annotations

from collections import Counter
from types import FrameType
from typing import Any

import pytest

from tandem_kafka.consumer.listener import ListenerCalls
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic
from tests.simulation.readers import Listener, Readers, filled
from tests.tier import bytecodes, sample
from tests.unit.interrupts import UNAWAITED, Interrupter, coroutines_end_here

__all__ = ["coroutines_end_here"]

pytestmark = UNAWAITED

#: Bytecodes between interruptions; a prime number, to hit loops at different places.
STEP = 283


class Waiting:
    """Knows whether the application thread waits: only then does the simulation continue."""

    def __init__(self, driver: Any) -> None:
        self._wait = driver.wait
        self.now = False
        driver.wait = self.wait

    def wait(self, *arguments: Any) -> bool:
        self.now = True
        try:
            return bool(self._wait(*arguments))
        finally:
            self.now = False


class InterruptedMember:
    """Two members of a group; the first is interrupted once."""

    def __init__(self, simulation: Simulation, protocol: str, at: int) -> None:
        self.readers = Readers(simulation, filled(simulation, partitions=4, count=5))
        self.listener = Listener()
        self.first = self.readers.join(self.listener, group_protocol=protocol)
        self.waiting = Waiting(simulation.drivers[0])
        self.protocol = protocol
        self.interrupter = Interrupter(at, skip=self._is_not_ours)
        self.interrupts = 0

    def _is_not_ours(self, frame: FrameType) -> bool:
        return self.waiting.now or frame.f_globals["__name__"].startswith("tests.")

    def poll(self) -> None:
        """Poll both members; the first is interrupted."""
        for member in self.readers.members:
            try:
                if member is self.first:
                    batch = self.interrupter.call(member.poll, 200)
                else:
                    batch = member.poll(200)
            except KeyboardInterrupt:
                self.interrupts += 1
                continue
            for tp, records in batch.items():
                self.readers.read.update((tp, record.offset) for record in records)

    def settle(self) -> None:
        until_ms = self.readers.simulation.clock.now_ms() + 60_000
        for _ in range(8):
            self.poll()  # heartbeats report changes of the group
        while not (self.readers.settled() and self.readers.all_read()):
            assert self.readers.simulation.clock.now_ms() < until_ms, "the group does not settle"
            self.poll()

    def run(self) -> None:
        self.settle()
        self.readers.join(group_protocol=self.protocol)
        self.settle()


@pytest.mark.parametrize("protocol", sample(["consumer", "classic"], 1))
def test_an_interrupted_member_loses_and_repeats_nothing(protocol: str) -> None:
    for at in bytecodes(STEP):  # until there is no bytecode left to interrupt
        with Simulation(at) as simulation:
            group = InterruptedMember(simulation, protocol, at)
            group.run()
            twice = {each: n for each, n in group.readers.read.items() if n > 1}
            assert not twice
            calls = Counter(group.listener.calls)
            assert max(calls.values()) == 1, group.listener.calls
            # CPython runs no handler between this store and the call of the listener's method.
            starting = group.interrupter.came_behind(ListenerCalls._call.__code__, "_progress")
            assert starting or {what for what, _ in calls} >= {"assigned", "revoked"}
        if group.interrupter.frame is None:
            break
        assert group.interrupts == 1
    assert at > 25_000


def test_a_reader_that_an_interrupt_has_left_behind_is_replaced() -> None:
    """Otherwise no later poll() is the outermost one, so none lets other threads in."""
    with Simulation("left behind") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", group_id="readers")
        core = consumer._core
        core.reader = core.callers.current()
        consumer.poll(100)
        assert core.reader is None
