"""Commits on the application thread: synchronous, asynchronous and automatic."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, TypedDict

from tandem_kafka.consumer.commit_future import CommitFuture
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.reading.interceptors import Interceptors
from tandem_kafka.dataclass import dataclass
from tandem_kafka.events.application import (
    Assigned,
    AutoCommit,
    CommitAsync,
    CommitSync,
    TopicIds,
)
from tandem_kafka.events.background import PartitionsRevoked
from tandem_kafka.logs import client_logger
from tandem_kafka.network.outages import Outage
from tandem_kafka.runtime.callers import OtherHolder
from tandem_kafka.types import NO_TOPIC_ID, OffsetOfTopic, Offsets, offsets_text

log = client_logger(__name__)

Callback = Callable[[Any, Any], object]


class _What(TypedDict):
    """What every commit has."""

    offsets: Offsets
    topic_ids: TopicIds
    assigned: Assigned


@dataclass(eq=False)
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

    __slots__ = ("__dict__", "auto_commit_ms")

    def __init__(self, core: Core, interceptors: Interceptors) -> None:
        self._core = core
        self._interceptors = interceptors
        self._pending: deque[_Pending] = deque()
        self._callback_lock = core.callers.lock()
        #: A revocation, and its commit that has not ended.
        self._revoking: tuple[PartitionsRevoked | None, CommitSync | None] = None, None
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

    def _what(self, offsets: Offsets | None) -> _What:
        """Return what to commit: the positions by default.

        Invariant: the assignment and the topic ids are read first, because a partition may be
        released, and a topic may be deleted and recreated in between. A position of the new topic
        with the old id is not committed. In the other order, a position of the old topic could be
        committed for the new one.
        """
        subscription = self._core.engine.subscription
        assigned, topic_ids = subscription.assigned, subscription.topic_ids(offsets)
        chosen = dict(subscription.consumed_offsets() if offsets is None else offsets)
        for tp, offset in (offsets or {}).items():
            if isinstance(offset, OffsetOfTopic) and offset.topic_id != NO_TOPIC_ID:
                topic_ids[tp] = offset.topic_id
        return {"assigned": assigned, "topic_ids": topic_ids, "offsets": chosen}

    # --- synchronous ---------------------------------------------------------------------------

    async def commit_sync(
        self, offsets: Offsets | None, timeout_ms: float | None, *, releasing: bool = False
    ) -> None:
        """Commit and wait; earlier asynchronous commits complete first. See `CommitSync`."""
        deadline_ms = self._core.deadline_ms(timeout_ms)
        event = CommitSync(deadline_ms=deadline_ms, releasing=releasing, **self._what(offsets))
        await self.await_pending(event.deadline_ms, interruptible=True)
        if event.offsets:
            await self._core.ask(event, interruptible=True)
            self._interceptors.on_commit(event.offsets)

    async def commit_quietly(self, deadline_ms: int) -> None:
        """Commit before partitions are released; a failure is only logged."""
        event = CommitSync(deadline_ms=deadline_ms, releasing=True, **self._what(None))
        if event.offsets:
            await self._quietly(event, self._core.ask(event))

    async def commit_before_revocation(self, revocation: PartitionsRevoked) -> None:
        """Commit quietly, once for each revocation.

        A cancelled poll() leaves the commit to the next one, unless a seek has changed positions
        since. Otherwise, each would begin another one, behind those before it, and a poll() in a
        short timeout would never end the rebalance.
        """
        core = self._core
        begun, event = self._revoking
        what = self._what(None)
        if event is None or begun is not revocation or event.offsets != what["offsets"]:
            deadline_ms = core.deadline_ms(core.config.max_poll_interval_ms)
            event = CommitSync(deadline_ms=deadline_ms, releasing=True, **what)
            if not event.offsets:
                return
            core.engine.queue.add(event)
            self._revoking = revocation, event  # stored last: what is here has been sent
        await self._quietly(event, core.result(event))
        self._revoking = None, None

    async def _quietly(self, event: CommitSync, result: Awaitable[object]) -> None:
        try:
            await result
        except Exception as error:  # noqa: BLE001 - the release must continue
            left = {tp: at for tp, at in event.offsets.items() if tp not in event.stored}
            if left:  # the response may have come after the end of the wait
                log.warning(
                    "offsets were not committed before the partitions were released, so records "
                    "may be read again: %s (%s)",
                    offsets_text(left),
                    error,
                    client=self._core.client,
                )
        else:
            self._interceptors.on_commit(event.offsets)
        self.auto_commit_ms = self._core.clock.now_ms() + self._interval_ms

    # --- asynchronous --------------------------------------------------------------------------

    def commit_async(self, offsets: Offsets | None, callback: Callback | None) -> CommitFuture:
        """Commit without waiting; the callback runs in a later call."""
        event = CommitAsync(**self._what(offsets))
        if callback is None:
            callback = self._core.config.default_offset_commit_callback
        future, offload = CommitFuture(event.future, event.offsets), self._core.driver.offload
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
        event = AutoCommit(**self._what(None))
        if event.offsets:
            self._core.engine.queue.add(event)
            if self._interceptors.committing or self._core.config.default_offset_commit_callback:
                self._automatic.append(event)
