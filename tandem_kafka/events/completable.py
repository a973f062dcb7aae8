"""A result that the network thread will deliver, and the reaper that lets none wait for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tandem_kafka.errors import KafkaTimeoutError

__all__ = ["NO_DEADLINE_MS", "Completable", "Completion", "Reaper"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Deadline of what is bounded by something else (for example the request's own timeout).
NO_DEADLINE_MS = 2**62


class Completion(Generic[T]):
    """A result to come: completed once by the network thread, read by whoever holds it.

    Unlike `concurrent.futures.Future` it has no lock and no wait of its own: waiting goes
    through the `Driver`, and only one thread ever completes it. What comes second is ignored,
    because a deadline and an answer may both be on their way.
    """

    __slots__ = ("_callbacks", "_error", "_result", "done")

    def __init__(self) -> None:
        self.done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Completion[T]], None]] = []

    def complete(self, result: T) -> None:
        """Deliver the result."""
        if not self.done:
            self._result = result
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Deliver an error."""
        if not self.done:
            self._error = error
            self._finish()

    def _finish(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    @property
    def error(self) -> BaseException | None:
        """The error, if that is how it ended."""
        return self._error

    def result(self) -> T:
        """Return the result or raise the error; only when `done`."""
        if not self.done:
            msg = "the result is not there yet"
            raise RuntimeError(msg)
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def then(self, callback: Callable[[Completion[T]], None]) -> None:
        """Call `callback` with this object once it is done (now, if it is)."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)


class Completable(Protocol):
    """What a reaper watches: something with a result and a deadline."""

    @property
    def deadline_ms(self) -> int:
        """When the caller stops waiting, in the clock's time."""
        ...

    @property
    def future(self) -> Completion[Any]:
        """The result."""
        ...

    @property
    def operation(self) -> str:
        """What the user called, for the message of the timeout."""
        ...


class Reaper:
    """Fails what is past its deadline, so that no caller waits on a lost answer."""

    def __init__(self) -> None:
        self._watched: list[Completable] = []

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, event: Completable) -> None:
        """Take care of an event from now on."""
        self._watched.append(event)

    def watched(self) -> tuple[Completable, ...]:
        """Return what is still open."""
        return tuple(event for event in self._watched if not event.future.done)

    def forget_done(self) -> int:
        """Drop what is done; returns how many there were."""
        before = len(self._watched)
        if before:
            self._watched = [event for event in self._watched if not event.future.done]
        return before - len(self._watched)

    def reap(self, now_ms: int) -> int:
        """Fail what is due; returns how many."""
        failed = 0
        for event in self._watched:
            if not event.future.done and now_ms >= event.deadline_ms:
                failed += 1
                late_ms = now_ms - event.deadline_ms
                event.future.fail(
                    KafkaTimeoutError(
                        f"{event.operation} did not finish in time ({late_ms} ms past its deadline)"
                    )
                )
        return failed

    def next_deadline_ms(self) -> int:
        """When `reap` is needed next."""
        if not self._watched:
            return NO_DEADLINE_MS
        return min(
            (event.deadline_ms for event in self._watched if not event.future.done),
            default=NO_DEADLINE_MS,
        )

    def fail_all(self, error: Exception) -> None:
        """Fail everything that is still open."""
        watched, self._watched = self._watched, []
        for event in watched:
            event.future.fail(error)
