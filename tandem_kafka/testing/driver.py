"""A driver without a thread: a waiting call runs the network loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tandem_kafka.runtime import Loop, Random
from tandem_kafka.testing.network import SimTransport
from tandem_kafka.testing.scheduler import ParkableLoop, Parked, Scheduler

__all__ = ["SteppedDriver"]

T = TypeVar("T")

#: The application thread may be this late to notice: the interpreter's switch interval.
LATE_MS = 5


class SteppedDriver:
    """Keeps the loop parked where a real thread sleeps, and steps it while the application waits.

    What a real network thread does while the application computes happens here when `wait`
    begins, and in up to two further steps, drawn from the seed, after it is over: the network
    thread was faster than the application thread noticed.

    Attributes:
        offloaded_ms: Shortest and longest time that work elsewhere takes.
    """

    def __init__(self, scheduler: Scheduler, transport: SimTransport, random: Random) -> None:
        self._scheduler = scheduler
        self._transport = transport
        self._random = random
        self.parked: Parked | None = None
        self.offloaded_ms = (0, 20)

    @property
    def turns(self) -> int:
        """How often the loop went round."""
        return self.parked.turns if self.parked is not None else 0

    def start(self, loop: Loop, name: str) -> None:
        """Let the loop go to sleep for the first time.

        Raises:
            TypeError: The loop cannot be parked: it has no `prepare` and `complete`.
        """
        if not isinstance(loop, ParkableLoop):
            msg = f"{loop!r} has no prepare() and complete()"
            raise TypeError(msg)
        self.parked = self._scheduler.park(name, loop, self._transport)

    def notify(self, *, first: bool = False) -> None:
        """Nobody waits elsewhere: the application looks after every step."""

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Step until `ready()` or the deadline, then a little further."""
        clock = self._scheduler.clock
        while not ready() and clock.now_ms() < deadline_ms:
            self._scheduler.step(deadline_ms)
        for _ in range(self._random.randrange(3)):
            self._scheduler.step(clock.now_ms() + self._random.randrange(LATE_MS))
        return ready()

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Do the work in a while, in no thread's turn."""

        def run() -> None:
            try:
                result: T | BaseException = self._scheduler.aside(work)
            except Exception as error:  # noqa: BLE001 - handed to the caller, whatever it is
                result = error
            done(result)

        self._scheduler.after(self._random.randint(*self.offloaded_ms), run)

    def join(self, deadline_ms: int) -> bool:
        """Step until the loop has ended."""
        parked, clock = self.parked, self._scheduler.clock
        if parked is None:
            return True
        while not parked.finished and clock.now_ms() < deadline_ms:
            self._scheduler.step(deadline_ms)
        return parked.finished
