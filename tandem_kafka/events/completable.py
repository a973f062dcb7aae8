"""Results that the network thread delivers, and the reaper that enforces their deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tandem_kafka.errors import BrokerResponseError, KafkaTimeoutError, for_code, reason_of
from tandem_kafka.logs import clean_error, client_logger
from tandem_kafka.types import TopicPartition, names_of

log = client_logger(__name__)

T = TypeVar("T")

#: The deadline of an event that has another bound, for example the timeout of its request.
NO_DEADLINE_MS = 2**62


#: UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID.
_MISSING = (for_code(3), for_code(100))


class Completion(Generic[T]):
    """A future that the network thread completes once, and that any thread may read.

    Unlike `concurrent.futures.Future`, it has neither a lock nor a wait. Threads wait through the
    `Driver`, and only one thread completes it. A second completion is ignored, because both the
    deadline and the response may complete it.
    """

    __slots__ = ("_callbacks", "_error", "_result", "done")

    def __init__(self) -> None:
        self.done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Completion[T]], None]] = []

    def complete(self, result: T) -> None:
        """Complete it with a result."""
        if not self.done:
            self._result = result
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Complete it with an error."""
        if not self.done:
            clean_error(error)
            self._error = error
            self._finish()

    def _finish(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    @property
    def error(self) -> BaseException | None:
        """The error of a failed completion."""
        return self._error

    def result(self) -> T:
        """Return the result or raise the error; it must be `done`."""
        if not self.done:
            msg = "the result is not available yet; wait until done is True"
            raise RuntimeError(msg)
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def then(self, callback: Callable[[Completion[T]], None]) -> None:
        """Call `callback` with this object once it is done; immediately if it already is."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)


class Completable(Protocol):
    """What a reaper watches: a future with a deadline."""

    @property
    def deadline_ms(self) -> int:
        """When the caller stops waiting, in the time of the clock."""
        ...

    @property
    def future(self) -> Completion[Any]:
        """The future."""
        ...

    @property
    def operation(self) -> str:
        """The user's call, for the message of the timeout."""
        ...

    def obstacles(self) -> Mapping[TopicPartition, Exception]:
        """The last error of each partition that is not done, for the same message."""
        ...


class CompletableEventReaper:
    """Fails overdue events, so that no caller waits forever for a lost response."""

    def __init__(self) -> None:
        self._watched: list[Completable] = []

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, event: Completable) -> None:
        """Watch an event from now on."""
        self._watched.append(event)

    def watched(self) -> tuple[Completable, ...]:
        """Return the events that are not done."""
        return tuple([event for event in self._watched if not event.future.done])

    def forget_done(self) -> int:
        """Drop completed events and return their number."""
        before = len(self._watched)
        if before:
            self._watched = [event for event in self._watched if not event.future.done]
        return before - len(self._watched)

    def reap(self, now_ms: int, troubles: Callable[[], Sequence[str]] = tuple) -> int:
        """Fail the overdue events and return their number.

        Args:
            now_ms: The current time.
            troubles: Returns what may have prevented them, for the message.
        """
        overdue = [e for e in self._watched if not e.future.done and now_ms >= e.deadline_ms]
        if overdue:
            found = troubles()
            for event in overdue:
                event.future.fail(_timeout_of(event, found))
        return len(overdue)

    def next_deadline_ms(self) -> int:
        """Return when `reap` must be called next."""
        if not self._watched:
            return NO_DEADLINE_MS
        return min(
            (event.deadline_ms for event in self._watched if not event.future.done),
            default=NO_DEADLINE_MS,
        )

    def fail_all(self, error: Exception) -> None:
        """Fail all events that are not done."""
        watched, self._watched = self._watched, []
        for event in watched:
            event.future.fail(error)


def _timeout_of(event: Completable, troubles: Sequence[str]) -> KafkaTimeoutError:
    """Return the error of an overdue event: what is wrong, as far as it is known."""
    errors = dict(event.obstacles())
    reasons = [*troubles, *_by_error(errors)] or ["no broker is known to fail, so allow more time"]
    timeout = KafkaTimeoutError(f"{event.operation} did not finish in time: {'; '.join(reasons)}")
    timeout.__cause__ = next(iter(errors.values()), None)
    return timeout


def _by_error(errors: Mapping[TopicPartition, Exception]) -> Iterator[str]:
    """Describe each error once, with its partitions."""
    partitions: dict[str, list[TopicPartition]] = {}
    for tp, error in errors.items():
        partitions.setdefault(_text_of(error), []).append(tp)
    return (f"{names_of(tps)}: {text}" for text, tps in partitions.items())


def _text_of(error: Exception) -> str:
    if isinstance(error, _MISSING):
        cure = (
            "the partition does not exist, or this client may not see it; check the name, create "
            "the topic, or grant Describe on it"
        )
        return f"{error.message} ({cure})"
    if isinstance(error, BrokerResponseError):
        return str(error.message)
    return f"{type(error).__name__}: {reason_of(error)}"
