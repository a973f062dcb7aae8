"""Whose turn it is, and when time passes, where several consumers live in one thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from tandem_kafka.network.transport import TransportEvent
from tandem_kafka.runtime import Random
from tandem_kafka.testing.clock import SimClock
from tandem_kafka.testing.network import NEVER_MS, SimNetwork, SimTransport

__all__ = ["LivelockError", "ParkableLoop", "Parked", "Scheduler"]

T = TypeVar("T")

#: So many turns while time stands still are no progress but a spin.
LIVELOCK_TURNS = 1_000


class LivelockError(AssertionError):
    """Loops took turn after turn and no time passed."""


@runtime_checkable
class ParkableLoop(Protocol):
    """A loop that can be stopped where its thread would sleep."""

    @property
    def running(self) -> bool:
        """False once it has nothing left to do."""
        ...

    def prepare(self) -> int:
        """Everything before the sleep; returns how long that may last, in milliseconds."""
        ...

    def complete(self, transport_events: list[TransportEvent]) -> None:
        """Everything behind the sleep."""
        ...

    def finish(self, failure: BaseException | None = None) -> None:
        """Close what the loop owns."""
        ...


@dataclass(slots=True, eq=False)
class Parked:
    """A loop asleep in its transport's poll.

    Attributes:
        wakes_ms: When it wakes if nothing happens.
        turns: How often it went round.
        finished: True once it has ended.
        stalled_ms: Until when it gets no turn: its process is stopped.
    """

    name: str
    loop: ParkableLoop
    transport: SimTransport
    wakes_ms: int
    turns: int = 0
    finished: bool = False
    stalled_ms: int = 0


class Scheduler:
    """Gives turns to loops that have something to do; lets time pass when none has.

    Attributes:
        in_turn: True while a loop has its turn: what runs then runs on its network thread.
    """

    def __init__(self, clock: SimClock, network: SimNetwork, random: Random, seed: object) -> None:
        self.clock = clock
        self._network = network
        self._random = random
        self._seed = seed
        self._parked: list[Parked] = []
        self._turns_now = 0
        self.in_turn = False

    def park(self, name: str, loop: ParkableLoop, transport: SimTransport) -> Parked:
        """Take a loop over, and let it go to sleep for the first time."""
        parked = Parked(name, loop, transport, self.clock.now_ms())
        parked.wakes_ms += loop.prepare()
        self._parked.append(parked)
        return parked

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Have something happen in a while."""
        self._network.at(self.clock.now_ms() + delay_ms, action)

    def aside(self, work: Callable[[], T]) -> T:
        """Do what another thread would do, whosever turn it is."""
        in_turn, self.in_turn = self.in_turn, False
        try:
            return work()
        finally:
            self.in_turn = in_turn

    def step(self, until_ms: int) -> None:
        """One turn of one loop; if all sleep, time passes before, at most to `until_ms`."""
        network = self._network
        now_ms = self.clock.now_ms()
        if network.next_ms <= now_ms:
            network.deliver()
        due = self._due(now_ms)
        if not due:
            next_ms = min(until_ms, network.next_ms, self._next_ms(now_ms))
            if next_ms <= now_ms:
                return
            self._turns_now = 0
            self.clock.advance_to(next_ms)
            if network.next_ms <= next_ms:
                network.deliver()
            due = self._due(next_ms)
        if due:
            self._turn(due[0] if len(due) == 1 else self._random.choice(due))

    def _due(self, now_ms: int) -> list[Parked]:
        """Return the loops that have something to do and may."""
        return [
            parked
            for parked in self._parked
            if (parked.wakes_ms <= now_ms or parked.transport.ready) and parked.stalled_ms <= now_ms
        ]

    def _next_ms(self, now_ms: int) -> int:
        """Return when one of the loops will have something to do by itself."""
        moments = [p.stalled_ms if p.stalled_ms > now_ms else p.wakes_ms for p in self._parked]
        return min(moments, default=NEVER_MS)

    def _turn(self, parked: Parked) -> None:
        self._turns_now += 1
        if self._turns_now > LIVELOCK_TURNS:
            msg = (
                f"livelock in {parked.name}: {LIVELOCK_TURNS} turns at {self.clock.now_ms()} ms "
                f"and no time passes (seed {self._seed!r})"
            )
            raise LivelockError(msg)
        parked.turns += 1
        self.in_turn = True
        try:
            self._go_round(parked)
        finally:
            self.in_turn = False

    def _go_round(self, parked: Parked) -> None:
        parked.loop.complete(parked.transport.poll(0))
        if parked.loop.running:
            parked.wakes_ms = self.clock.now_ms() + parked.loop.prepare()
        else:
            self._parked.remove(parked)
            parked.finished = True
            parked.loop.finish()
