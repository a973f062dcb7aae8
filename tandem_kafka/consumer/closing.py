"""Closes the consumer in phases; a failed phase does not prevent the next one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.listener import ListenerCalls, callback_error
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.events.application import (
    Close,
    DrainCommits,
    LeaveGroup,
    PrepareToLeave,
    Unsubscribe,
)
from tandem_kafka.shared.group import NO_GENERATION
from tandem_kafka.types import LeaveOperation

__all__ = ["Closing", "Hook"]

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS = 30_000
#: The default if the coordinator was already unreachable before close().
UNREACHABLE_TIMEOUT_MS = 5_000
#: The reason sent to the coordinator (KIP-800).
REASON = "the consumer unsubscribes or closes"
#: How long after the deadline the network thread may still run.
JOIN_GRACE_MS = 2_000


class Hook(Protocol):
    """A user's object that the consumer closes."""

    def close(self) -> None:
        """Close the object."""
        ...


class Closing:
    """Implements unsubscribe() and close()."""

    def __init__(
        self,
        core: Core,
        commits: Commits,
        listener: ListenerCalls,
        hooks: Sequence[Hook],
    ) -> None:
        self._core = core
        self._commits = commits
        self._listener = listener
        self._hooks = hooks
        self._errors: list[BaseException] = []

    def unsubscribe(self) -> None:
        """Release the partitions, leave the group and end the subscription.

        Raises:
            RebalanceCallbackError: The listener raised; all other steps were completed.
        """
        with self._collecting():
            deadline_ms = self._core.deadline_ms(None)
            commit = self._commits.automatic
            self._release_partitions(deadline_ms, commit=commit, leave=LeaveOperation.DEFAULT)
            if not self._core.closed:
                self._attempt(lambda: self._core.ask(Unsubscribe(deadline_ms=deadline_ms)))

    def deadline_ms(self, timeout_ms: float | None) -> int:
        """Return the deadline of a close() with this timeout."""
        if timeout_ms is None:
            unreachable = self._core.engine.coordinator_unreachable
            timeout_ms = UNREACHABLE_TIMEOUT_MS if unreachable else DEFAULT_TIMEOUT_MS
        request_timeout_ms = self._core.config.request_timeout_ms
        return self._core.deadline_ms(min(timeout_ms, request_timeout_ms))

    def close(
        self, deadline_ms: int, *, commit: bool, leave: LeaveOperation, alone: bool = True
    ) -> None:
        """Close the consumer before the deadline.

        Args:
            deadline_ms: When the close must have finished.
            commit: Whether to commit first, if auto-commit is on.
            leave: Whether to leave the group.
            alone: False if another thread does not return from a listener or deserializer. Then
                the close neither commits nor calls the listener.

        Raises:
            RebalanceCallbackError: The listener raised.
            BaseException: An interrupt such as KeyboardInterrupt; the consumer is closed.
        """
        with self._collecting():
            if not alone:
                log.warning(
                    "closing without a commit and without calling the rebalance listener: another "
                    "thread did not return from poll() in time; its listener or deserializer "
                    "blocks"
                )
            self._close(deadline_ms, commit=commit, leave=leave, alone=alone)

    def _close(self, deadline_ms: int, *, commit: bool, leave: LeaveOperation, alone: bool) -> None:
        try:
            if alone:
                commit = commit and self._commits.automatic
                self._release_partitions(deadline_ms, commit=commit, leave=leave)
            elif self._core.engine.subscription.auto_assigned:
                self._leave(self._core.clock.now_ms() + JOIN_GRACE_MS, leave)
            self._attempt(lambda: self._core.ask(DrainCommits(deadline_ms=deadline_ms)))
            self._attempt(lambda: self._commits.await_pending(deadline_ms, interruptible=False))
        finally:
            self._end_network_thread(deadline_ms)
        # By now, commits that could not be sent have failed. Their callbacks must run as well.
        self._attempt(self._commits.run_callbacks)
        for hook in self._hooks:
            self._attempt(hook.close)

    # --- phases --------------------------------------------------------------------------------

    def _release_partitions(self, deadline_ms: int, *, commit: bool, leave: LeaveOperation) -> None:
        """Commit, run the listener and leave the group, in this order."""
        subscription = self._core.engine.subscription
        if subscription.auto_assigned:
            self._attempt(lambda: self._core.ask(PrepareToLeave(deadline_ms=deadline_ms)))
        if commit:
            self._attempt(lambda: self._commits.commit_quietly(deadline_ms))
        if not subscription.auto_assigned:
            return
        held = self._listener.unreleased(frozenset(subscription.assigned))
        group = self._core.engine.group
        grouped = self._core.config.group_id is not None
        if grouped and (group.lost or group.metadata.generation_id == NO_GENERATION):
            self._attempt(lambda: _call_listener(lambda: self._listener.lost(held)))
        else:
            self._attempt(lambda: _call_listener(lambda: self._listener.revoked(held)))
        if self._core.closed:
            return  # the listener has closed the consumer
        self._leave(deadline_ms, leave)

    def _leave(self, deadline_ms: int, leave: LeaveOperation) -> None:
        event = LeaveGroup(deadline_ms=deadline_ms, reason=REASON, leave=leave)
        self._attempt(lambda: self._core.ask(event))

    def _end_network_thread(self, deadline_ms: int) -> None:
        self._attempt(lambda: self._core.engine.queue.add(Close(deadline_ms=deadline_ms)))
        join_by_ms = max(deadline_ms, self._core.clock.now_ms()) + JOIN_GRACE_MS
        try:
            ended = self._core.driver.join(join_by_ms)
        except BaseException as error:  # noqa: BLE001 - Ctrl-C; raised after all phases
            self._errors.append(error)
            self._core.engine.loop.stop()
            ended = self._core.driver.join(self._core.clock.now_ms() + JOIN_GRACE_MS)
        if not ended:
            log.warning(
                "the network thread did not end by the deadline of close(); it ends in the "
                "background"
            )
            self._core.engine.loop.stop()

    def _attempt(self, step: Callable[[], object]) -> None:
        """Run a step; log a timeout, and keep any other error for the end."""
        try:
            step()
        except KafkaTimeoutError as error:
            log.warning("a step of close() timed out: %s", error)
        except BaseException as error:  # noqa: BLE001 - raised after all phases
            self._errors.append(error)

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        """Collect errors and raise the first at the end; a listener may close recursively."""
        outer, self._errors = self._errors, []
        try:
            yield
        finally:
            errors, self._errors = self._errors, outer
        if not errors:
            return
        first, *others = errors
        for error in others:
            log.error("a further error while closing, besides the one that is raised: %r", error)
        raise first


def _call_listener(callback: Callable[[], None]) -> None:
    """Call a listener's method; wrap its error as poll() does."""
    try:
        callback()
    except Exception as error:
        raise callback_error(error) from error
