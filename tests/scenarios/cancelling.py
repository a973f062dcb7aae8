"""Cancels a task at one of its suspensions, and counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["MODES", "Canceller"]

T = TypeVar("T")

#: When a task is cancelled: as it suspends; when the result of its wait has arrived, but before it
#: continues; or as it suspends and at the following suspensions of the call.
MODES = ("early", "late", "repeatedly")
#: Cancellations of one call. Without a limit, the task would never sleep, and no time would pass.
MAX_REQUESTS = 10


class Canceller:
    """Cancels the task of a call at the n-th suspension of all calls.

    Attributes:
        suspensions: How often the calls have suspended.
    """

    def __init__(self, at: int, mode: str) -> None:
        self._at = at
        self._mode = mode
        self.suspensions = 0
        #: How often the last call was cancelled here.
        self._requests = 0

    @property
    def done(self) -> bool:
        """Whether the suspension has been reached."""
        return self.suspensions >= self._at

    async def attempt(self, call: Coroutine[Any, Any, T]) -> T:
        """Make a call.

        Raises:
            asyncio.CancelledError: The call was cancelled.
        """
        self._requests = 0
        try:
            return await _Watched(call, self._suspended)
        finally:
            for _ in range(self._requests):
                _task().uncancel()

    async def repeat(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make a call; make it again if this object has cancelled it, and nothing else has."""
        before = _task().cancelling()
        while True:
            try:
                return await self.attempt(make())
            except asyncio.CancelledError:
                if not self._requests or _task().cancelling() > before:
                    raise

    @property
    def struck(self) -> bool:
        """Whether the last call was cancelled at one of its suspensions."""
        return self._requests > 0

    def _suspended(self, waited: Any) -> None:
        self.suspensions += 1
        again = self._mode == "repeatedly" and 0 < self._requests < MAX_REQUESTS
        if self.suspensions != self._at and not again:
            return
        if self._mode == "late" and isinstance(waited, asyncio.Future):
            task = _task()
            waited.add_done_callback(lambda _: self._cancel(task))
        else:
            self._cancel(_task())

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        self._requests += 1
        task.cancel()


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


class _Watched(Generic[T]):
    """A coroutine whose suspensions are reported."""

    def __init__(self, call: Coroutine[Any, Any, T], suspended: Callable[[Any], None]) -> None:
        self._call = call
        self._suspended = suspended

    def __await__(self) -> Generator[Any, Any, T]:
        error: BaseException | None = None
        while True:
            try:
                waited = self._call.send(None) if error is None else self._call.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            self._suspended(waited)
            error = None
            try:
                yield waited
            except BaseException as thrown:  # noqa: BLE001 - thrown into the call
                error = thrown
