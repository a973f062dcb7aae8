"""What a request manager is: the loop asks it in turn what to send; it never touches a socket.

A manager keeps the state of one subject (coordinator, commits, fetches, ...). Every turn of the
engine's loop calls `poll(now_ms)`, which returns requests to send and how long the thread may
sleep as far as this manager is concerned. A wait of 0 is only right when something can be sent
at once: the wake-up for anything else comes with a response or an application event.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from tandem_kafka.network.backoff import FOREVER_MS, Backoff
from tandem_kafka.network.request import UnsentRequest

__all__ = ["IDLE", "PollResult", "RequestManager", "RequestState"]


class PollResult(NamedTuple):
    """What a manager wants: requests to send, and to be asked again within `wait_ms`."""

    unsent: tuple[UnsentRequest, ...] = ()
    wait_ms: int = FOREVER_MS


IDLE: Final = PollResult()


class RequestManager(Protocol):
    """The state of one subject, on the network thread."""

    def poll(self, now_ms: int) -> PollResult:
        """Return what to send now; no input or output happens here."""
        ...

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - most have nothing to say
        """Return the last requests of a consumer that closes; by default there are none."""
        return IDLE


class RequestState:
    """One kind of request: at most one in flight, and a back-off after each failure.

    Each request sent gets a number. A response counts only for the newest number, so a response
    to a request from before `reset()` changes nothing.
    """

    __slots__ = ("_backoff", "_next_send_ms", "_number", "_settled", "in_flight")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._next_send_ms = 0
        self._number = 0
        self._settled = True
        self.in_flight = False

    def can_send(self, now_ms: int) -> bool:
        """True when no request is in flight and the back-off is over."""
        return not self.in_flight and now_ms >= self._next_send_ms

    def wait_ms(self, now_ms: int) -> int:
        """Until `can_send`; `FOREVER_MS` while in flight (the response wakes the loop)."""
        if self.in_flight:
            return FOREVER_MS
        return max(0, self._next_send_ms - now_ms)

    def sent(self) -> int:
        """Note that a request has been made; returns its number."""
        self.in_flight = True
        self._number += 1
        return self._number

    def arrived(self, number: int) -> bool:
        """Note the outcome of a request; False if that request no longer counts."""
        if not self.in_flight or number != self._number:
            return False
        self.in_flight = self._settled = False
        return True

    def settle(self) -> None:
        """The outcome was processed without an error: succeed, unless its handler has decided."""
        if not self._settled:
            self.succeeded()

    def succeeded(self) -> None:
        """It worked: the next may go at once."""
        self._finish(0)
        self._backoff.reset()

    def failed(self, now_ms: int) -> None:
        """It failed: wait for the back-off."""
        self._finish(now_ms + self._backoff.next_ms())

    def reset(self) -> None:
        """Forget failures and what is in flight: send at once."""
        self._number += 1
        self.succeeded()

    def _finish(self, next_send_ms: int) -> None:
        self.in_flight = False
        self._settled = True
        self._next_send_ms = next_send_ms
