"""The interface of request managers, which return requests to send but never use a socket.

A manager keeps the state of one subject (coordinator, commits, fetches, ...). The engine's loop
calls `poll(now_ms)`, which returns requests to send and how long the thread may sleep as far as
this manager is concerned. A wait of 0 is only allowed if something can be sent immediately.
Otherwise the loop would spin: a response or an application event wakes it anyway.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from tandem_kafka.network.backoff import FOREVER_MS, Backoff
from tandem_kafka.network.request import UnsentRequest


class PollResult(NamedTuple):
    """Requests to send, and the time in ms after which the manager must be polled again."""

    unsent: tuple[UnsentRequest, ...] = ()
    wait_ms: int = FOREVER_MS


IDLE: Final = PollResult()


class RequestManager(Protocol):
    """The state of one subject, on the network thread."""

    def poll(self, now_ms: int) -> PollResult:
        """Return the requests to send now, without any input or output."""
        ...

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - most have no final requests
        """Return the final requests of a closing consumer; by default there are none."""
        return IDLE


class RequestState:
    """The state of one kind of request: at most one in flight, and a backoff after each failure.

    Each request gets a number. Only a response to the newest number counts, so a response to a
    request from before `reset()` is ignored.
    """

    __slots__ = ("_backoff", "_next_send_ms", "_number", "_settled", "in_flight")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._next_send_ms = 0
        self._number = 0
        self._settled = True
        self.in_flight = False

    def can_send(self, now_ms: int) -> bool:
        """Tell whether no request is in flight and the backoff is over."""
        return not self.in_flight and now_ms >= self._next_send_ms

    def wait_ms(self, now_ms: int) -> int:
        """Return the time until `can_send`; `FOREVER_MS` while a request is in flight."""
        if self.in_flight:
            return FOREVER_MS
        return max(0, self._next_send_ms - now_ms)

    def sent(self) -> int:
        """Record that a request was created, and return its number."""
        self.in_flight = True
        self._number += 1
        return self._number

    def arrived(self, number: int) -> bool:
        """Record the outcome of a request; return False if the request no longer counts."""
        if not self.in_flight or number != self._number:
            return False
        self.in_flight = self._settled = False
        return True

    def settle(self) -> None:
        """Record success after processing the outcome, unless its handler recorded something."""
        if not self._settled:
            self.succeeded()

    def succeeded(self) -> None:
        """Record success: the next request may be sent immediately."""
        self._finish(0)
        self._backoff.reset()

    def failed(self, now_ms: int) -> None:
        """Record a failure: the next request waits for the backoff."""
        self._finish(now_ms + self._backoff.next_ms())

    def proceed(self) -> None:
        """Let the next request be sent immediately, without forgetting earlier failures."""
        self._finish(0)

    def hold(self, until_ms: int) -> None:
        """Send no request before a time."""
        self._finish(until_ms)

    def abandon(self) -> None:
        """Forget the request in flight, but neither the failures before nor their backoff."""
        self._number += 1
        self._finish(self._next_send_ms)

    def reset(self) -> None:
        """Forget failures and the request in flight, so that the next can be sent immediately."""
        self._number += 1
        self.succeeded()

    def _finish(self, next_send_ms: int) -> None:
        self.in_flight = False
        self._settled = True
        self._next_send_ms = next_send_ms
