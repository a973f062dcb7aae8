"""Passes the outcome of every request to the manager that created it.

A manager handles a response with `on_response` and an error with `on_error`. All failures go to
`on_error`: there is no response, the response has an error (which `on_response` raises), or
`on_response` raises an unexpected exception. A malformed response or a defect is therefore retried
like any other failure, and never leaves a manager waiting forever.
"""

from __future__ import annotations

from collections.abc import Callable

from tandem_kafka.errors import IllegalStateError, KafkaError, UnexpectedResponseError
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import clean_error, client_logger
from tandem_kafka.network.request import ClientResponse
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.runtime import Clock

log = client_logger(__name__)


def internal_error(error: BaseException) -> KafkaError:
    """Return the error to raise for a defect on the network thread."""
    wrapped: KafkaError = KafkaError(
        f"internal error on the network thread: {error!r}; this is a defect in tandem-kafka, "
        "please report it"
    )
    wrapped.__cause__ = error
    return wrapped


class OutcomeHandler:
    """Handles the errors of one kind of request.

    Args:
        name: The kind of request, for the log and for errors.
        on_error: Called with each error.
        raise_in_poll: Called with an exception that `on_error` raises, for poll() to raise.
        note: Called with each error, also of a part of a response, or None after a success. It
            returns whether the request before failed, too.
    """

    __slots__ = ("_name", "_note", "_noted", "_on_error", "_raise_in_poll")

    def __init__(
        self,
        name: str,
        on_error: Callable[[Exception], None],
        raise_in_poll: Callable[[Exception], None],
        note: Callable[[Exception | None], bool],
    ) -> None:
        self._name = name
        self._on_error = on_error
        self._raise_in_poll = raise_in_poll
        self._note = note
        #: An error that `run` has noted and returned.
        self._noted: Exception | None = None

    def run(self, handle: Callable[[], Exception | None]) -> Exception | None:
        """Process a response; return its error, which must be passed to `fail`."""
        try:
            self._note(handle())
        except IllegalStateError as error:  # a `KafkaError`, but no broker returns it
            return self._unexpected(error)
        except KafkaError as error:
            again, self._noted = self._note(error), error
            if isinstance(error, UnexpectedResponseError) and not again:
                log.warning("invalid response to %s; the request is retried: %s", self._name, error)
            # The error is raised again elsewhere, so the traceback to this place does not help.
            without_traceback: Exception = error.with_traceback(None)
            return without_traceback
        except Exception as error:  # noqa: BLE001 - any exception means a failed request
            return self._unexpected(error)
        return None

    def fail(self, error: Exception) -> None:
        """Handle an error; never raises."""
        clean_error(error)
        if error is not self._noted:
            self._note(error)
        try:
            self._on_error(error)
        except Exception as defect:
            log.exception(
                "handling an error of %s failed because of a defect in tandem-kafka, and poll() "
                "raises it; please report it",
                self._name,
            )
            self._raise_in_poll(internal_error(defect))

    def _unexpected(self, error: Exception) -> Exception:
        unexpected = UnexpectedResponseError(
            f"cannot process the response to {self._name}: {error!r}; the request is retried"
        )
        unexpected.__cause__ = error
        again, self._noted = self._note(unexpected), unexpected
        if not again:
            log.error(
                "cannot process the response to %s; the request is retried",
                self._name,
                exc_info=error,
            )
        return unexpected


class Exchange:
    """One request and its outcome.

    Args:
        outcomes: Handles an error.
        on_response: Handles the response; raises a `KafkaError` for an error of the response, and
            returns one of a part that is already handled.
        clock: The clock for the backoff.
        state: The state of the request. It is in flight until the outcome arrives, and backs off
            after an error.
        on_late: Handles the response to a request that was abandoned; by default it is dropped.
    """

    __slots__ = ("_clock", "_number", "_on_late", "_on_response", "_outcomes", "_state")

    def __init__(
        self,
        outcomes: OutcomeHandler,
        on_response: Callable[[ClientResponse], Exception | None],
        clock: Clock,
        state: RequestState | None,
        on_late: Callable[[ClientResponse], None] = lambda _: None,
    ) -> None:
        self._outcomes = outcomes
        self._on_late = on_late
        self._on_response = on_response
        self._clock = clock
        self._state = state
        self._number = state.sent() if state is not None else 0

    def arrived(self, future: Completion[ClientResponse]) -> None:
        """Process the outcome; never raises."""
        state = self._state
        if state is not None and not state.arrived(self._number):
            if future.error is None:  # the request was abandoned
                self._outcomes.run(lambda: self._on_late(future.result()))
            return
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
