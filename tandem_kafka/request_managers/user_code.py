"""Runs user code that the network thread needs: assignors and patterns of topic names.

It runs on a separate thread, one call at a time and in the order of the calls, so that user code
needs no lock. Heartbeats and fetches continue even if a call takes long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from tandem_kafka.dataclass import dataclass
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.exchange import internal_error

log = client_logger(__name__)

T = TypeVar("T")

Offload = Callable[[Callable[[], Any], Callable[[Any], None]], None]


class UserCode(Protocol):
    """Runs calls of user code, and returns their results on the network thread."""

    def run(
        self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Run `work`; later pass its result to `done`, or its exception to `failed`."""
        ...

    def deliver(self) -> bool:
        """Pass on the available results; return whether there were any."""
        ...


@dataclass(frozen=True)
class _Call:
    work: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]


class UserCodeRunner:
    """Runs one call at a time on another thread.

    Args:
        offload: `Driver.offload`.
        wakeup: Wakes the network thread.
        raise_in_poll: Called with an exception of `done` or `failed`, which is a defect.
    """

    def __init__(
        self,
        offload: Offload,
        wakeup: Callable[[], None],
        raise_in_poll: Callable[[Exception], None],
    ) -> None:
        self._offload = offload
        self._wakeup = wakeup
        self._raise_in_poll = raise_in_poll
        #: The first one is running.
        self._calls: deque[_Call] = deque()
        # Filled by any thread, emptied by the network thread; a deque needs no lock for this.
        self._results: deque[Any] = deque()

    def run(
        self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Run `work` after the calls before it."""
        self._calls.append(_Call(work, done, failed))
        if len(self._calls) == 1:
            self._begin()

    def _begin(self) -> None:
        self._offload(self._calls[0].work, self._finished)

    def _finished(self, result: Any) -> None:
        self._results.append(result)
        self._wakeup()

    def deliver(self) -> bool:
        """Pass on the available results, and start the next call."""
        some = bool(self._results)
        while self._results:
            result, call = self._results.popleft(), self._calls.popleft()
            if self._calls:
                self._begin()
            try:
                _pass_on(call, result)
            except Exception as error:
                log.exception(
                    "the result of an assignor or pattern could not be processed, and poll() "
                    "raises this error"
                )
                self._raise_in_poll(internal_error(error))
        return some


class InlineUserCode:
    """Runs each call immediately on the calling thread; for tests of a single manager."""

    def run(
        self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Run `work` immediately."""
        try:
            result: Any = work()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            result = error
        _pass_on(_Call(work, done, failed), result)

    def deliver(self) -> bool:
        """Do nothing: all results have been passed on already."""
        return False


class PendingCall(Generic[T]):
    """One kind of call, for which only the newest result counts.

    Args:
        user_code: Runs the call.
        done: Called with the result.
        failed: Called with the exception of the user code.

    Attributes:
        running: True while a result is expected.
    """

    def __init__(
        self, user_code: UserCode, done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        self._user_code = user_code
        self._done = done
        self._failed = failed
        self._number = 0
        self.running = False

    def start(self, work: Callable[[], T]) -> None:
        """Start a call; the result of an earlier one is dropped."""
        self._number += 1
        self.running = True
        self._user_code.run(
            work,
            partial(self._finished, self._number, self._done),
            partial(self._finished, self._number, self._failed),
        )

    def cancel(self) -> None:
        """Drop the expected result."""
        self._number += 1
        self.running = False

    def _finished(self, number: int, then: Callable[[Any], None], result: Any) -> None:
        if number == self._number:
            self.running = False
            then(result)


def _pass_on(call: _Call, result: Any) -> None:
    if isinstance(result, Exception):
        call.failed(result)
    elif isinstance(result, BaseException):
        call.failed(internal_error(result))
    else:
        call.done(result)
