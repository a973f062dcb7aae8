"""Runs the network loops of several consumers in one thread, and advances the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from tandem_kafka.network.transport import TransportEvent
from tandem_kafka.runtime import Random
from tandem_kafka_testing.clock import NEVER_MS, SimClock
from tandem_kafka_testing.network import SimNetwork, SimTransport

T = TypeVar("T")

#: More iterations without any passage of time count as a livelock.
LIVELOCK_ITERATIONS = 1_000


class LivelockError(AssertionError):
    """Loops keep running and no time passes."""


@runtime_checkable
class ParkableLoop(Protocol):
    """A loop that can be parked where its thread would sleep."""

    @property
    def running(self) -> bool:
        """False once the loop has ended."""
        ...

    def prepare(self) -> int:
        """Do everything before the sleep; returns the longest sleep in milliseconds."""
        ...

    def complete(self, transport_events: list[TransportEvent]) -> None:
        """Handle the events of the sleep, and do all work that follows from them."""
        ...

    def finish(self, failure: BaseException | None = None) -> None:
        """Close the resources of the loop."""
        ...


@dataclass(slots=True, eq=False)
class ParkedLoop:
    """A loop that sleeps in the poll of its transport.

    Attributes:
        wakes_ms: When it wakes up without an event.
        iterations: Number of its iterations.
        finished: Whether it has ended.
        stalled_until_ms: Until when its process is stopped.
        when_finished: Called when it has ended.
    """

    name: str
    loop: ParkableLoop
    transport: SimTransport
    wakes_ms: int
    iterations: int = 0
    finished: bool = False
    stalled_until_ms: int = 0
    when_finished: Callable[[], None] = lambda: None


class Scheduler:
    """Runs loops that have work to do; advances the time when none has.

    Attributes:
        on_network_thread: True while a loop runs: the running code is on its network thread.
    """

    def __init__(self, clock: SimClock, network: SimNetwork, random: Random, seed: object) -> None:
        self.clock = clock
        self._network = network
        self._random = random
        self._seed = seed
        self._parked: list[ParkedLoop] = []
        self._iterations_now = 0
        self.on_network_thread = False

    def park(self, name: str, loop: ParkableLoop, transport: SimTransport) -> ParkedLoop:
        """Take a loop over, and let it go to sleep for the first time."""
        parked = ParkedLoop(name, loop, transport, self.clock.now_ms())
        parked.wakes_ms += loop.prepare()
        self._parked.append(parked)
        return parked

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Schedule an action."""
        self._network.at(self.clock.now_ms() + delay_ms, action)

    def draw(self, below: int) -> int:
        """Return a number that the seed draws, below a limit."""
        return self._random.randrange(below)

    def run_outside(self, work: Callable[[], T]) -> T:
        """Run another thread's pending work, even inside a loop."""
        before, self.on_network_thread = self.on_network_thread, False
        try:
            return work()
        finally:
            self.on_network_thread = before

    def step(self, until_ms: int) -> None:
        """Run one iteration of one loop; if all sleep, advance the time, at most to `until_ms`."""
        network = self._network
        now_ms = self.clock.now_ms()
        if network.next_ms <= now_ms:
            network.deliver()
        due = self._due(now_ms)
        if not due:
            next_ms = min(until_ms, network.next_ms, self._next_ms(now_ms))
            if next_ms <= now_ms:
                return
            self._iterations_now = 0
            self.clock.advance_to(next_ms)
            if network.next_ms <= next_ms:
                network.deliver()
            due = self._due(next_ms)
        if due:
            self._run(due[0] if len(due) == 1 else self._random.choice(due))

    def _due(self, now_ms: int) -> list[ParkedLoop]:
        """Return the loops that have work to do and are not stalled."""
        return [
            parked
            for parked in self._parked
            if (parked.wakes_ms <= now_ms or parked.transport.ready)
            and parked.stalled_until_ms <= now_ms
        ]

    def _next_ms(self, now_ms: int) -> int:
        """Return when the first loop wakes up by itself."""
        moments = [
            p.stalled_until_ms if p.stalled_until_ms > now_ms else p.wakes_ms for p in self._parked
        ]
        return min(moments, default=NEVER_MS)

    def _run(self, parked: ParkedLoop) -> None:
        self._iterations_now += 1
        if self._iterations_now > LIVELOCK_ITERATIONS:
            msg = (
                f"livelock in {parked.name}: {LIVELOCK_ITERATIONS} iterations "
                f"at {self.clock.now_ms()} ms and no time passes (seed {self._seed!r})"
            )
            raise LivelockError(msg)
        parked.iterations += 1
        self.on_network_thread = True
        try:
            self._iterate(parked)
        finally:
            self.on_network_thread = False

    def _iterate(self, parked: ParkedLoop) -> None:
        parked.loop.complete(parked.transport.poll(0))
        if parked.loop.running:
            parked.wakes_ms = self.clock.now_ms() + parked.loop.prepare()
        else:
            self._parked.remove(parked)
            parked.finished = True
            parked.loop.finish()
            parked.when_finished()
