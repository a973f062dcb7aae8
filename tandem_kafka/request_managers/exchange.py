"""The one place where the outcome of a manager's request arrives.

A manager says what to do with a response (`on_response`) and with an error (`on_error`). Everything
that can go wrong comes to `on_error`: the request was not answered, the response carries an error
(`on_response` raises it), or `on_response` raised something that nobody expected. So a malformed
response or a defect of ours ends what is in flight, fails the futures of that request and is
tried again like any other failure; it never leaves a manager waiting for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tandem_kafka.errors import IllegalStateError, KafkaError, UnexpectedResponseError
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import ClientResponse
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.runtime import Clock

__all__ = ["Exchange", "OutcomeHandler", "internal_error"]

log = logging.getLogger(__name__)


def internal_error(error: BaseException) -> KafkaError:
    """Return what the user is told of a defect on the network thread."""
    wrapped: KafkaError = KafkaError(f"internal error on the network thread: {error!r}")
    wrapped.__cause__ = error
    return wrapped


class OutcomeHandler:
    """Where the errors of one kind of request go.

    Args:
        name: The kind of request, for the log and for errors.
        on_error: Takes each error.
        raise_in_poll: Takes what `on_error` itself raised: poll() raises that.
    """

    __slots__ = ("_name", "_on_error", "_raise_in_poll")

    def __init__(
        self,
        name: str,
        on_error: Callable[[Exception], None],
        raise_in_poll: Callable[[Exception], None],
    ) -> None:
        self._name = name
        self._on_error = on_error
        self._raise_in_poll = raise_in_poll

    def run(self, handle: Callable[[], None]) -> Exception | None:
        """Run what processes a response; returns its error, which is still to be dealt with."""
        try:
            handle()
        except IllegalStateError as error:  # a `KafkaError`, but no broker answers with it
            return self._unexpected(error)
        except KafkaError as error:
            if isinstance(error, UnexpectedResponseError):
                log.warning("cannot use a response to %s: %s", self._name, error)
            # Raised again elsewhere, by every poll() perhaps: where it came from says nothing.
            refused: Exception = error.with_traceback(None)
            return refused
        except Exception as error:  # noqa: BLE001 - whatever it is, the request has failed
            return self._unexpected(error)
        return None

    def fail(self, error: Exception) -> None:
        """Deal with an error; raises nothing."""
        try:
            self._on_error(error)
        except Exception as defect:
            log.exception("%s failed and the error was not handled; poll() raises it", self._name)
            self._raise_in_poll(internal_error(defect))

    def _unexpected(self, error: Exception) -> Exception:
        log.error("cannot process a response to %s", self._name, exc_info=error)
        unexpected = UnexpectedResponseError(
            f"cannot process a response to {self._name}: {error!r}; the request is tried again"
        )
        unexpected.__cause__ = error
        return unexpected


class Exchange:
    """One request and its outcome.

    Args:
        outcomes: Takes the error, if there is one.
        on_response: Takes the response. It raises a `KafkaError` for an error in the response.
        clock: Time, for the back-off.
        state: In flight from now on; the outcome ends that, with a back-off after an error.
    """

    __slots__ = ("_clock", "_number", "_on_response", "_outcomes", "_state")

    def __init__(
        self,
        outcomes: OutcomeHandler,
        on_response: Callable[[ClientResponse], None],
        clock: Clock,
        state: RequestState | None,
    ) -> None:
        self._outcomes = outcomes
        self._on_response = on_response
        self._clock = clock
        self._state = state
        self._number = state.sent() if state is not None else 0

    def arrived(self, future: Completion[ClientResponse]) -> None:
        """Process the outcome; raises nothing."""
        state = self._state
        if state is not None and not state.arrived(self._number):
            return  # of a request that was given up
        error = future.error
        if error is None:
            error = self._outcomes.run(lambda: self._on_response(future.result()))
        if error is None:
            if state is not None:
                state.settle()
            return
        if state is not None:
            state.failed(self._clock.now_ms())
        self._outcomes.fail(error if isinstance(error, Exception) else internal_error(error))
