"""The records of a share group in one run, and what becomes of them after an attempt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from tandem_kafka.errors import IllegalStateError, InvalidArgumentError, RecordLockLostError
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.runtime import Clock, Random
from tandem_kafka.workers.assignment import Portion, Task
from tandem_kafka.workers.settings import CallSettings
from tandem_kafka.workers.work import Work

log = client_logger(__name__)

#: While so many records wait for their next attempt, no others are taken. Invariant: none is
#: released instead. It would come back at once, and be used up without an attempt of `Retry`.
MOST_WAITING: Final = 1_000

Otherwise = Literal["reject", "release"] | Callable[[Any, Exception, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings(CallSettings):
    """Checked arguments; `ShareWorkers` documents them."""

    workers: int

    reaction: ClassVar[str] = "otherwise"
    reactions: ClassVar[tuple[str, str]] = ("reject", "release")
    or_executor: ClassVar[str] = ""
    blocking: ClassVar[str] = "ShareWorkers"

    def check(self, acknowledgement: str) -> None:
        """Check the values, and that the consumer can be used.

        Raises:
            InvalidArgumentError, ArgumentTypeError: A value is invalid.
        """
        if acknowledgement != "explicit":
            msg = 'the consumer acknowledges implicitly; create it with acknowledgement="explicit"'
            raise InvalidArgumentError(msg)
        self.check_calls()


class ShareAttempts(Work):
    """Accepts, rejects and releases records, and keeps those that are tried again.

    Attributes:
        part: All records of the run.
        running: What is with a worker.
        awaited: Whether the run waits for `on_room`.
    """

    _settings: ShareSettings

    def __init__(
        self,
        settings: ShareSettings,
        clock: Clock,
        random: Random,
        lock: AbstractContextManager[Any],
        client: ClientNames | None = None,
    ) -> None:
        super().__init__(settings, clock, random, lock, client)
        self.running: set[Task] = set()
        self.awaited = False
        self.part = Portion()

    # --- intake --------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many records may be polled: as many as there are free workers."""
        delayed = self._scheduler.delayed
        if delayed >= MOST_WAITING:
            return 0
        return max(0, self._settings.workers - (self.in_flight - delayed))

    def wake(self) -> None:
        """Queue what is tried again now: it has workers before other records have."""
        self._scheduler.wake(self._clock.now_ms())

    def admit(self, records: Iterable[Any]) -> None:
        """Queue records."""
        now_ms = self._clock.now_ms()
        tasks = [Task(self.part, record, None, now_ms) for record in records]
        self.in_flight += len(tasks)
        self._scheduler.ready.extend(tasks)

    # --- for the crew --------------------------------------------------------------------------

    @property
    def has_ready(self) -> bool:
        """Whether a task waits for a worker; at the end of a run, only what cannot be handled."""
        ready = self._scheduler.ready
        return bool(ready) and (not self._ends or ready[0].error is not None)

    def take(self) -> Task | None:
        """Return a task for a worker.

        A record that is no longer locked is left out: somebody else may have it.
        """
        task = super().take()
        while task is not None and task.failures and not (task.error or task.record.is_locked):
            task.part.running -= 1
            self._release(task)
            task = super().take()
        if task is None and self.has_ready and (task := self._scheduler.take()):  # the run ends
            task.part.running += 1
        if task is not None:
            self.running.add(task)
        if self.awaited and not self._scheduler.ready and self.room:
            self.awaited = False
            self.on_room()
        return task

    def settle(self, task: Task, error: BaseException | None) -> None:
        """Note the outcome of a call for a task."""
        self.running.discard(task)
        super().settle(task, error)

    def abandon(self, task: Task) -> None:
        """Note that a task is given up without a result."""
        self.running.discard(task)
        super().abandon(task)
        self._end(task.record.release)

    def take_back(self, task: Task) -> None:
        """Queue a task again whose call has not begun, unless the run ends."""
        if self._ends and task.error is None:
            self.abandon(task)
        else:
            self.running.discard(task)
            super().take_back(task)

    # --- the end of the run --------------------------------------------------------------------

    def drop_queued(self) -> None:
        """Try nothing again, but let the function for what cannot be handled have the rest."""
        self.part.draining = True
        ready = self._scheduler.ready
        self._scheduler.ready = deque(task for task in ready if task.error is not None)

    @property
    def busy(self) -> bool:
        """Whether a worker has something to do."""
        return bool(self.running) or self.has_ready

    def close(self) -> None:
        """Let handlers that continue change nothing more: their records are released."""
        self.stopped = self.part.fenced = True
        self._scheduler.ready.clear()

    # --- what follows from an outcome ----------------------------------------------------------

    def _drops(self, task: Task) -> bool:
        del task
        return self.part.fenced

    def _finish(self, task: Task) -> None:
        if not self.part.fenced:
            self.done += self._accept(task.record)
        self._release(task)

    def _release(self, task: Task) -> None:
        del task  # a record, as each of them
        self.in_flight -= 1

    def _give_up(self, task: Task, error: Exception) -> None:
        record, rejects = task.record, self._settings.exhausted == "reject"
        log.warning(
            "the handler failed %d times for offset %d of %s-%d, so the record is %s: %r",
            task.failures,
            record.offset,
            record.topic,
            record.partition,
            "rejected" if rejects else "released",
            error,
            client=self._client,
        )
        self._end(record.reject if rejects else record.release)
        self._release(task)

    def _delay_ms(self, task: Task) -> int | None:
        delay_ms = super()._delay_ms(task)
        # At the end of a run, nothing is tried again.
        return None if task.error is not None and self.part.draining else delay_ms

    def _refuse(self, task: Task, error: Exception) -> None:
        log.error(
            "otherwise() failed (%d), so the record at offset %d of %s-%d is released; the group "
            "drops it if it has no attempts left",
            task.refusals,
            task.record.offset,
            task.record.topic,
            task.record.partition,
            exc_info=error,
            client=self._client,
        )
        self._end(task.record.release)
        self._release(task)

    def _accept(self, record: Any) -> bool:
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

    def _end(self, how: Callable[[], None]) -> None:
        """Release or reject a record, unless its handler has, or it is delivered again anyway."""
        try:
            how()
        except (IllegalStateError, RecordLockLostError) as error:
            log.debug("%s", error, client=self._client)
