"""What becomes of a record of a share group after an attempt: `ShareWorkers` and its async form."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final, Literal

from tandem_kafka import ShareRecord
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    RecordLockLostError,
)
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.runtime import Runtime
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.settings import check_duration

log = client_logger(__name__)

#: While so many records wait for their next attempt, no others are taken. Invariant: none is
#: released instead. It would come back at once, and be used up without an attempt of `Retry`.
MOST_WAITING: Final = 1_000
#: How often a run looks whether it must end.
LOOK_MS: Final = 100

Record = ShareRecord[Any, Any]
Otherwise = Literal["reject", "release"] | Callable[[Any, Exception, int], object]


class ShareAttempts:
    """Accepts, rejects and releases records, and keeps those that are tried again.

    All methods but those that acknowledge belong to the thread of the run.

    Args:
        retry: How often a record is tried.
        otherwise: What follows the last attempt.
        client: The names of the consumer, for the lines of other threads.

    Attributes:
        done: Number of records that were accepted.
    """

    def __init__(self, retry: Retry, otherwise: Otherwise, client: ClientNames) -> None:
        self.runtime = Runtime.threaded()
        self.otherwise = otherwise
        self.done = 0
        self._retry = retry
        self._client = client
        #: When to try again, a number that makes it unique, the record and its failures.
        self._waiting: list[tuple[int, int, Record, int]] = []
        self._count = 0

    def delay_ms(self, failures: int) -> int | None:
        """Return the backoff after so many failures; None if that was the last attempt."""
        return self._retry.delay_ms(failures, self.runtime.random)

    def postpone(self, record: Record, failures: int, delay_ms: int) -> None:
        """Try a record again after a time."""
        self._count += 1
        due_ms = self.runtime.clock.now_ms() + delay_ms
        heapq.heappush(self._waiting, (due_ms, self._count, record, failures))

    @property
    def full(self) -> bool:
        """Whether so many records wait that no others are to be taken."""
        return len(self._waiting) >= MOST_WAITING

    def due(self) -> tuple[Record, int] | None:
        """Return a record whose next attempt is due, and its failures so far.

        Records that are no longer locked are left out: somebody else may have them.
        """
        while self._waiting and self._waiting[0][0] <= self.runtime.clock.now_ms():
            _, _, record, failures = heapq.heappop(self._waiting)
            if record.is_locked:
                return record, failures
        return None

    def left_ms(self) -> int:
        """Return how long a poll may wait: until an attempt is due, or the run must look up."""
        if not self._waiting:
            return LOOK_MS
        return max(0, min(LOOK_MS, self._waiting[0][0] - self.runtime.clock.now_ms()))

    def forget(self) -> None:
        """Try no record again; who calls this releases them."""
        self._waiting.clear()

    def accept(self, record: Record) -> bool:
        """Accept a record; returns whether it was: its handler may have acknowledged it."""
        try:
            record.accept()
        except RecordLockLostError as error:
            log.warning(
                "a record was handled, and is delivered again: %s", error, client=self._client
            )
            return False
        except IllegalStateError:
            return False
        return True

    def end(self, how: Callable[[], None]) -> None:
        """Release or reject a record, unless its handler has, or it is delivered again anyway."""
        try:
            how()
        except (IllegalStateError, RecordLockLostError) as error:
            log.debug("%s", error, client=self._client)

    def give_up(self, record: Record, error: Exception, failures: int) -> None:
        """Reject or release a record after its last attempt, as `otherwise` says."""
        log.warning(
            "the handler failed %d times for offset %d of %s-%d, so the record is %s: %r",
            failures,
            record.offset,
            record.topic,
            record.partition,
            "rejected" if self.otherwise == "reject" else "released",
            error,
            client=self._client,
        )
        self.end(record.reject if self.otherwise == "reject" else record.release)

    def release_after(self, record: Record, error: Exception) -> None:
        """Release a record for which the function `otherwise` failed."""
        log.error(
            "otherwise() failed; the record is delivered again", exc_info=error, client=self._client
        )
        self.end(record.release)

    def warn_of(self, record: Record) -> None:
        """Warn of a handler that did not return."""
        log.warning(
            "the handler of the record at offset %d of %s-%d did not return in drain_timeout_ms, "
            "so it is delivered again",
            record.offset,
            record.topic,
            record.partition,
            client=self._client,
        )


def check_share_workers(
    acknowledgement: str,
    handle: Any,
    workers: Any,
    retry: Any,
    otherwise: Any,
    drain_timeout_ms: Any,
) -> None:
    """Check the arguments.

    Raises:
        InvalidArgumentError, ArgumentTypeError: One of them has an invalid value or type.
    """
    if acknowledgement != "explicit":
        msg = 'the consumer acknowledges implicitly; create it with acknowledgement="explicit"'
        raise InvalidArgumentError(msg)
    if not callable(handle):
        raise ArgumentTypeError(f"handle must be a function that takes a record, got {handle!r}")
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise ArgumentTypeError(f"workers must be a number, got {workers!r}")
    if workers < 1:
        raise InvalidArgumentError(f"workers must be at least 1, got {workers}")
    check_duration("drain_timeout_ms", drain_timeout_ms, 0)
    if not isinstance(retry, Retry):
        raise ArgumentTypeError(f"retry must be a Retry, got {retry!r}")
    if otherwise not in ("reject", "release") and not callable(otherwise):
        msg = (
            'otherwise must be "reject", "release" or a function of record, error and number of '
            f"attempts, got {otherwise!r}"
        )
        raise InvalidArgumentError(msg)
