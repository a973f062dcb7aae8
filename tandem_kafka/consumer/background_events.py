"""Processes events from the network thread: raises errors and runs rebalance callbacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import assert_never

from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.listener import ListenerCalls, callback_error
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector
from tandem_kafka.errors import KafkaError, WakeupError
from tandem_kafka.events.application import ApplyAssignment, CallbackCompleted
from tandem_kafka.events.background import (
    BackgroundEvent,
    ErrorEvent,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from tandem_kafka.logs import client_logger

RebalanceEvent = PartitionsAssigned | PartitionsRevoked | PartitionsLost

log = client_logger(__name__)


class BackgroundEvents:
    """Runs on the application thread, inside poll()."""

    def __init__(
        self, core: Core, commits: Commits, collector: FetchCollector, listener: ListenerCalls
    ) -> None:
        self._core = core
        self._commits = commits
        self._collector = collector
        self._listener = listener
        #: Completed callbacks and their errors, until the network thread has been notified.
        self._completed: deque[tuple[int, Exception | None]] = deque()
        #: Errors to raise, one by each poll(); each is different.
        self._errors: deque[ErrorEvent] = deque()

    def __len__(self) -> int:
        begun = self._listener.due is not None
        waiting = len(self._completed) + len(self._errors)
        return len(self._core.engine.background) + begun + waiting

    async def process(self) -> None:
        """Process all events, then raise the first error, if any; the next poll() the second.

        After an interrupt, the next call continues with the same event. A callback that has
        already started is not called again.
        """
        await self._report_completed()
        while (event := self._next()) is not None:
            if isinstance(event, ErrorEvent):
                self._note_error(event)
            else:
                try:
                    await self._handle(event)
                except KafkaError as error:
                    self._note_error(ErrorEvent(error))
            self._listener.due = None
        while self._errors:
            first = self._errors.popleft()
            if not first.outdated and first.concerns(self._core.engine.subscription):
                raise first.error

    def _note_error(self, event: ErrorEvent) -> None:
        """Note an error for a poll() to raise, once if it is there already."""
        if event.adds_to(self._errors):
            self._errors.append(event)

    def _next(self) -> BackgroundEvent | None:
        queue = self._core.engine.background
        event = self._listener.due or queue.first
        # Invariant: noted before it leaves the queue, so that an interrupt does not lose it.
        self._listener.due = event
        if event is not None and queue.first is event:
            queue.take()
        return event

    async def _handle(self, event: RebalanceEvent) -> None:
        if self._cancelled(event.number):
            return  # the membership that it belonged to has ended
        match event:
            case PartitionsAssigned():
                await self._apply_assignment(event)
            case PartitionsRevoked():
                await self._revoke(event)
            case PartitionsLost(partitions):
                left = self._listener.unreleased(partitions)
                await self._call(event, lambda: self._listener.lost(left))
            case _:
                assert_never(event)

    def _cancelled(self, number: int) -> bool:
        return number != self._core.engine.group.callback

    async def _revoke(self, event: PartitionsRevoked) -> None:
        if self._commits.automatic:
            await self._commits.commit_before_revocation(event)
            if self._cancelled(event.number):
                return  # the membership ended during the commit: partitions are lost, not revoked

        async def revoked() -> None:
            try:
                await self._listener.revoked(event.partitions)
            except Exception as error:
                if not isinstance(error, WakeupError):
                    # It failed, so it must be called again.
                    self._listener.released_partitions = frozenset()
                raise

        await self._call(event, revoked)

    async def _apply_assignment(self, event: PartitionsAssigned) -> None:
        # Without a suspension: a cancellation would leave partitions assigned that the listener has
        # not received. If the membership then ends, they would be passed to it as lost.
        applied = self._core.ask_now(
            ApplyAssignment(
                deadline_ms=self._core.deadline_ms(None),
                number=event.number,
                partitions=event.assignment,
            )
        )
        if applied:
            self._listener.released_partitions = frozenset()
            self._collector.purge()
            await self._call(event, lambda: self._listener.assigned(event.added))

    async def _call(self, event: RebalanceEvent, callback: Callable[[], Awaitable[None]]) -> None:
        """Run a callback and report its outcome to the network thread in any case."""
        try:
            await callback()
            self._completed.append((event.number, None))
        except WakeupError:
            # An intended interruption is not a failure of the callback.
            self._completed.append((event.number, None))
            raise
        except Exception as error:
            self._completed.append((event.number, error))
            raise callback_error(error) from error
        except BaseException:
            if self._listener.due is not event:  # the callback had started
                self._completed.append((event.number, None))
            raise
        finally:
            await self._report_completed()

    async def _report_completed(self) -> None:
        """Report completed callbacks to the network thread."""
        while self._completed:
            number, error = self._completed[0]
            if not self._core.closed:  # the callback may have closed it
                # Invariant: wait until the network thread has processed it. The assignment changes
                # inside poll() or not at all.
                deadline_ms = self._core.deadline_ms(None)
                await self._core.ask(
                    CallbackCompleted(deadline_ms=deadline_ms, number=number, error=error)
                )
                self._collector.purge()
            self._completed.popleft()
