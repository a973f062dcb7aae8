"""Two real threads and one baton: a data race found this way has a seed and comes back.

Only the holder of the baton runs. At every line of the chosen modules a seeded draw may hand it
to another thread, so that every interleaving of lines is possible and each is repeatable. Meant
for the small objects that threads share; far too slow for whole scenarios.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

__all__ = ["DeadlockError", "Lockstep", "LockstepLock"]

#: A thread that pauses so often while nobody gets on is stuck.
_STUCK = 20_000


class DeadlockError(AssertionError):
    """Every thread that is left waits for another."""


class Lockstep:
    """Runs functions as threads that take turns.

    Attributes:
        schedule: Who got the baton, one name per hand-over.
        expired: How many waits only their timeouts ended, because no other thread was left. Where a
            thread should have been woken, that is a lost wake-up.
    """

    def __init__(self, seed: int, *modules: ModuleType, switch: float = 0.3) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the schedule must be repeatable
        self._files = frozenset(module.__file__ for module in modules)
        self._switch = switch
        self._turn: dict[str, threading.Semaphore] = {}
        self._alive: list[str] = []
        self._errors: list[BaseException] = []
        self._pauses = 0
        self.schedule: list[str] = []
        self.expired = 0

    def run(self, **bodies: Callable[[], None]) -> None:
        """Run all to their ends; raises the first error of any."""
        self._alive = list(bodies)
        self._turn = {name: threading.Semaphore(0) for name in bodies}
        threads = [
            threading.Thread(target=self._main, args=(name, body), name=name, daemon=True)
            for name, body in bodies.items()
        ]
        for thread in threads:
            thread.start()
        self._turn[self._random.choice(self._alive)].release()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    @property
    def alone(self) -> bool:
        """True when no other thread is left."""
        return len(self._alive) < 2

    def lock(self) -> LockstepLock:
        """Return a stand-in for `threading.Lock` that waits by handing the baton on."""
        return LockstepLock(self)

    def pause(self) -> None:
        """Let somebody else run, or go on: the draw decides."""
        me = threading.current_thread().name
        self._pauses += 1
        if self._pauses > _STUCK:
            msg = f"{me} waits and nobody gets on"
            raise DeadlockError(msg)
        chosen = self._random.choice(self._alive)
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
        if event == "line" and self._random.random() < self._switch:
            self.pause()
        return self._trace


class LockstepLock:
    """A lock that any thread may release; waiting for it is a hand-over of the baton."""

    def __init__(self, lockstep: Lockstep) -> None:
        self._lockstep = lockstep
        self._held = False

    def acquire(self, *, timeout: float = -1) -> bool:
        """Take the lock; False if no other thread is left that could release it."""
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
        """Tell whether the lock is held."""
        return self._held
