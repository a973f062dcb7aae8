"""Real threads that run one at a time: a data race found this way is repeatable by its seed.

At every line of the chosen modules, a draw from the seed may switch to another thread. Every
interleaving of lines is thus possible and repeatable. It is meant for the small objects that
threads share, and far too slow for whole consumers.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

__all__ = ["DeadlockError", "Lockstep", "LockstepLock"]

#: More pauses of all threads count as a deadlock.
_STUCK = 20_000


class DeadlockError(AssertionError):
    """Every remaining thread waits for another."""


class Lockstep:
    """Runs functions as threads, one at a time.

    Args:
        seed: Draws where threads switch.
        modules: The modules at whose lines they may.
        switch: How probable that is at each line.
        at: If given, the only switch: at this line of the first thread, the others run.

    Attributes:
        switched: Whether the first thread has reached the line `at`.
        schedule: The name of the thread chosen at each pause.
        expired: Number of waits that only their timeout ended, because no other thread remained. If
            another thread should have ended such a wait, its wakeup was lost.
    """

    def __init__(
        self, seed: int, *modules: ModuleType, switch: float = 0.3, at: int | None = None
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the schedule must be repeatable
        self._files = frozenset(module.__file__ for module in modules)
        self._switch = switch
        self._lines_left = at
        self.switched = False
        self._turn: dict[str, threading.Semaphore] = {}
        self._alive: list[str] = []
        self._errors: list[BaseException] = []
        self._pauses = 0
        self.schedule: list[str] = []
        self.expired = 0

    def run(self, **bodies: Callable[[], None]) -> None:
        """Run all threads to their end; raises the first error."""
        self._alive = list(bodies)
        self._turn = {name: threading.Semaphore(0) for name in bodies}
        threads = [
            threading.Thread(target=self._main, args=(name, body), name=name, daemon=True)
            for name, body in bodies.items()
        ]
        for thread in threads:
            thread.start()
        first = self._random.choice(self._alive) if self._lines_left is None else self._alive[0]
        self._turn[first].release()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    @property
    def alone(self) -> bool:
        """True if no other thread remains."""
        return len(self._alive) < 2

    def lock(self) -> LockstepLock:
        """Return a replacement for `threading.Lock` that switches threads while it waits."""
        return LockstepLock(self)

    def pause(self) -> None:
        """Switch to another thread or continue, as drawn."""
        me = threading.current_thread().name
        self._pauses += 1
        if self._pauses > _STUCK:
            msg = f"{me} waits and nobody gets on"
            raise DeadlockError(msg)
        others = [name for name in self._alive if name != me]
        chosen = self._random.choice(others if self.switched and others else self._alive)
        self.schedule.append(chosen)
        if chosen != me:
            self._turn[chosen].release()
            self._turn[me].acquire()

    def _main(self, name: str, body: Callable[[], None]) -> None:
        self._turn[name].acquire()
        sys.settrace(self._trace)
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self._errors.append(error)
        finally:
            sys.settrace(None)
            self._alive.remove(name)
            if self._alive:
                self._turn[self._random.choice(self._alive)].release()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line" and self._switches():
            self.pause()
        return self._trace

    def _switches(self) -> bool:
        if self._lines_left is None:
            return self._random.random() < self._switch
        if self.switched:
            return False
        self.switched = not self._lines_left
        self._lines_left -= 1
        return self.switched


class LockstepLock:
    """A lock that any thread may release; a waiting thread switches to others."""

    def __init__(self, lockstep: Lockstep) -> None:
        self._lockstep = lockstep
        self._held = False

    def acquire(self, *, timeout: float = -1) -> bool:
        """Acquire the lock; False if no other thread remains that could release it."""
        del timeout
        while self._held and not self._lockstep.alone:
            self._lockstep.pause()
        if self._held:
            self._lockstep.expired += 1
            return False
        self._held = True
        return True

    def release(self) -> None:
        """Release the lock.

        Raises:
            RuntimeError: It is not held.
        """
        if not self._held:
            msg = "release unlocked lock"
            raise RuntimeError(msg)
        self._held = False

    def locked(self) -> bool:
        """Return whether the lock is held."""
        return self._held
