"""Commits on the application thread: synchronous, asynchronous and automatic."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any
from uuid import UUID

from tandem_kafka.consumer.commit_future import CommitFuture
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.interceptors import Interceptors
from tandem_kafka.events.application import AutoCommit, CommitAsync, CommitSync
from tandem_kafka.logs import client_logger
from tandem_kafka.network.outages import Outage
from tandem_kafka.runtime.callers import OtherHolder
from tandem_kafka.types import Offsets, offsets_text

log = client_logger(__name__)

Callback = Callable[[Any, Any], object]


@dataclass(slots=True, eq=False)
class _Pending:
    """An asynchronous commit.

    Attributes:
        notified: The interceptors have been notified of the outcome.
        begun: The call of its callback has started.
    """

    event: CommitAsync
    future: CommitFuture
    callback: Callback | None
    notified: bool = False
    begun: bool = False


class Commits:
    """Keeps asynchronous commits in order until their callbacks have run.

    Any thread may commit. Callbacks run in the order of the commits. Any thread that calls the
    consumer may run them, but only one thread at a time.
    """

    def __init__(self, core: Core, interceptors: Interceptors) -> None:
        self._core = core
        self._interceptors = interceptors
        self._pending: deque[_Pending] = deque()
        self._callback_lock = core.callers.lock()
        #: Automatic commits whose outcome has not been passed on yet.
        self._automatic: list[AutoCommit] = []
        self._outage = Outage()
        self._interval_ms = core.config.auto_commit_interval_ms
        config = core.config
        #: Whether positions are committed in the background.
        self.automatic = config.enable_auto_commit and config.group_id is not None
        #: When the next automatic commit is due.
        self.auto_commit_ms: float = math.inf
        if self.automatic:
            self.auto_commit_ms = core.clock.now_ms() + self._interval_ms

    def _offsets_to_commit(self, offsets: Offsets | None) -> tuple[dict[str, UUID], Offsets]:
        """Return the topic ids and the offsets to commit.

        Invariant: the topic ids are read first, because a topic may be deleted and recreated in
        between. A position of the new topic with the old id is not committed. In the other order, a
        position of the old topic could be committed for the new one.
        """
        subscription = self._core.engine.subscription
        topic_ids = subscription.topic_ids(offsets)
        return topic_ids, dict(subscription.consumed_offsets() if offsets is None else offsets)

    # --- synchronous ---------------------------------------------------------------------------

    async def commit_sync(self, offsets: Offsets | None, timeout_ms: float | None) -> None:
        """Commit and wait; earlier asynchronous commits complete first."""
        topic_ids, chosen = self._offsets_to_commit(offsets)
        deadline_ms = self._core.deadline_ms(timeout_ms)
        await self.await_pending(deadline_ms, interruptible=True)
        if chosen:
            event = CommitSync(deadline_ms=deadline_ms, offsets=chosen, topic_ids=topic_ids)
            await self._core.ask(event, interruptible=True)
            self._interceptors.on_commit(chosen)

    async def commit_quietly(self, deadline_ms: int) -> None:
        """Commit before partitions are released; a failure is only logged."""
        topic_ids, chosen = self._offsets_to_commit(None)
        if not chosen:
            return
        event = CommitSync(
            deadline_ms=deadline_ms, offsets=chosen, topic_ids=topic_ids, releasing=True
        )
        try:
            await self._core.ask(event)
        except Exception as error:  # noqa: BLE001 - the release must continue
            log.warning(
                "offsets were not committed before the partitions were released, so records "
                "may be read again: %s (%s)",
                offsets_text(chosen),
                error,
                client=self._core.client,
            )
        else:
            self._interceptors.on_commit(chosen)
        self.auto_commit_ms = self._core.clock.now_ms() + self._interval_ms

    # --- asynchronous --------------------------------------------------------------------------

    def commit_async(self, offsets: Offsets | None, callback: Callback | None) -> CommitFuture:
        """Commit without waiting; the callback runs in a later call."""
        topic_ids, chosen = self._offsets_to_commit(offsets)
        if callback is None:
            callback = self._core.config.default_offset_commit_callback
        event = CommitAsync(offsets=chosen, topic_ids=topic_ids)
        future, offload = CommitFuture(event.future, chosen), self._core.driver.offload
        event.future.then(lambda _: future.settle_elsewhere(offload))
        pending = _Pending(event, future, callback)
        self._core.engine.queue.add(event)
        # Send it first: after an interrupt in between, nothing must wait for an unsent commit.
        self._pending.append(pending)
        self.run_callbacks()
        return future

    @property
    def waiting(self) -> bool:
        """True if a callback can run now."""
        return self._oldest_if_done() is not None

    def _oldest_if_done(self) -> _Pending | None:
        """Return the oldest commit if it is done. Another thread may remove it concurrently."""
        try:
            oldest = self._pending[0]
        except IndexError:
            return None
        return oldest if oldest.event.future.done else None

    def run_callbacks(self) -> None:
        """Run the callbacks of completed commits, in the order of the commits.

        If another thread is running callbacks, it runs these as well.
        """
        while self._has_finished_commits():
            held = self._callback_lock.acquire() or self._callback_lock.take_over(
                self._holds_callback_lock
            )
            if isinstance(held, OtherHolder):
                return
            try:
                self._run_callbacks()
            finally:
                held.release()

    def _has_finished_commits(self) -> bool:
        return self.waiting or any(event.future.done for event in self._automatic)

    def _holds_callback_lock(self, frame: FrameType) -> bool:
        """Tell whether a stack frame holds the callback lock."""
        is_ours = frame.f_code is Commits.run_callbacks.__code__
        return is_ours and frame.f_locals.get("self") is self

    def _run_callbacks(self) -> None:
        self._notify_automatic()
        while (pending := self._oldest_if_done()) is not None:
            if not pending.begun:
                self._finish(pending)
            # Remove it last, or an interrupt would lose its callback. The callback itself may
            # have called this method and removed it.
            if self._pending and self._pending[0] is pending:
                self._pending.popleft()

    def _finish(self, pending: _Pending) -> None:
        """Notify interceptors, the future and the callback of a completed commit."""
        error, offsets = pending.event.future.error, pending.event.offsets
        if not pending.notified:
            if error is None:
                self._interceptors.on_commit(offsets)
            elif pending.callback is None:
                self._log_failure(offsets, error)
            if error is None and self._outage.succeeded(self._core.clock.now_ms()):
                log.warning(
                    "asynchronous commits succeed again after %d s; failed commits: %d",
                    self._outage.lasted_s,
                    self._outage.failures,
                    client=self._core.client,
                )
            pending.notified = True
        pending.future.settle()
        pending.begun = True
        if pending.callback is not None:
            pending.callback(offsets, error)

    def _log_failure(self, offsets: Offsets, error: BaseException) -> None:
        first = self._outage.failed(self._core.clock.now_ms())
        log.log(
            logging.WARNING if first else logging.DEBUG,
            "asynchronous commit of %s failed: %s",
            offsets_text(offsets),
            error,
            client=self._core.client,
        )

    def _notify_automatic(self) -> None:
        callback = self._core.config.default_offset_commit_callback
        # Search again each time: a callback that commits calls this method too.
        while (event := next((e for e in self._automatic if e.future.done), None)) is not None:
            self._automatic.remove(event)
            if event.future.error is None:
                self._interceptors.on_commit(event.offsets)
            if callback is not None:
                callback(event.offsets, event.future.error)

    async def await_pending(self, deadline_ms: int, *, interruptible: bool) -> None:
        """Wait for the asynchronous commits so far, and run their callbacks."""
        asked = [pending.event.future for pending in tuple(self._pending)]
        if asked:
            done = lambda: all(future.done for future in asked)  # noqa: E731
            await self._core.wait(done, deadline_ms, interruptible=interruptible)
        self.run_callbacks()

    # --- automatic -----------------------------------------------------------------------------

    def auto_commit(self, now_ms: int, *, due: bool = True) -> None:
        """Commit the positions in the background, once per interval.

        Call this before new records are returned: the application has then processed all records
        before the positions.
        """
        if not self.automatic or (due and now_ms < self.auto_commit_ms):
            return
        self.auto_commit_ms = now_ms + self._interval_ms
        topic_ids, offsets = self._offsets_to_commit(None)
        if offsets:
            event = AutoCommit(offsets=offsets, topic_ids=topic_ids)
            self._core.engine.queue.add(event)
            if self._interceptors.committing or self._core.config.default_offset_commit_callback:
                self._automatic.append(event)
