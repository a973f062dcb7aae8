"""Closes a consumer in phases; a failed phase does not prevent the next one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from tandem_kafka.consumer.arguments import check_leave
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.consumer.listener import ListenerCalls, callback_error
from tandem_kafka.consumer.reading.iteration import Iteration
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.events.application import (
    Close,
    DrainCommits,
    LeaveGroup,
    PrepareToLeave,
    Unsubscribe,
)
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime.callers import run
from tandem_kafka.state.group import NO_GENERATION
from tandem_kafka.types import LeaveOperation

log = client_logger(__name__)

R = TypeVar("R")

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


def ended_with_interpreter(core: Core) -> bool:
    """Tell whether the interpreter ends; if it does, end the consumer without its network thread.

    That thread does not run any more: a wait for it would last until its limit.
    """
    if not sys.is_finalizing():
        return False
    if not core.closed:
        log.warning(
            "close() comes after the end of the interpreter: nothing was committed and the "
            "group was not left; close the consumer in a with statement or by atexit",
            client=core.client,
        )
    core.closing = core.closed = True
    return True


class Closing:
    """Ends a consumer: what close() of every kind has.

    Args:
        core: The connection to the network thread, which ends.
        hooks: The user's objects that are closed last.
    """

    def __init__(self, core: Core, hooks: Sequence[Hook]) -> None:
        self._core = core
        self._hooks = hooks
        self._errors: list[BaseException] = []

    @guarded
    async def _run(
        self, timeout_ms: float | None, phases: Callable[[int, bool], Awaitable[None]]
    ) -> None:
        """Run the phases once. A second call waits for the first.

        Args:
            timeout_ms: Time limit in milliseconds, never more than `request_timeout_ms`.
            phases: Called with the deadline, and False if another caller does not return from
                user code in poll(), so that what it works on must be left alone.

        Raises:
            BaseException: The first error of a phase, or an interrupt; the consumer is closed.
        """
        core = self._core
        core.check_process()
        core.callers.check()
        if ended_with_interpreter(core):
            return
        first = not core.closing
        deadline_ms = self._deadline_ms(timeout_ms)
        try:
            core.closing = True
            core.engine.polls.request_attention()  # iteration asks for nothing else
            suspension = await core.suspend_poll(deadline_ms)
        except BaseException:
            # Interrupted before the close began: the next close() must start it.
            core.closing = not first
            raise
        try:
            if first and not core.closed:
                try:
                    with self._collecting():
                        await self._close(deadline_ms, phases, alone=suspension is not None)
                finally:
                    core.closed = True
        finally:
            if suspension is not None:
                suspension.release()

    async def _close(
        self,
        deadline_ms: int,
        phases: Callable[[int, bool], Awaitable[None]],
        *,
        alone: bool,
    ) -> None:
        if not alone:
            log.warning(
                "closing without the commit and the listener of a poll() that does not return: the "
                "listener or deserializer of another %s blocks",
                self._core.callers.kind,
                client=self._core.client,
            )
        try:
            await phases(deadline_ms, alone)
        finally:
            await self._end(deadline_ms)
        for hook in self._hooks:
            await self._attempt(_called(hook.close))

    async def _end(self, deadline_ms: int) -> None:
        await self._attempt(end_network_thread(self._core, deadline_ms))

    def _deadline_ms(self, timeout_ms: float | None) -> int:
        if timeout_ms is None:
            unreachable = self._core.engine.coordinator_unreachable
            timeout_ms = UNREACHABLE_TIMEOUT_MS if unreachable else DEFAULT_TIMEOUT_MS
        request_timeout_ms = self._core.config.request_timeout_ms
        return self._core.deadline_ms(min(timeout_ms, request_timeout_ms))

    async def _leave(
        self, deadline_ms: int, leave: LeaveOperation = LeaveOperation.DEFAULT
    ) -> None:
        event = LeaveGroup(deadline_ms=deadline_ms, reason=REASON, leave=leave)
        await self._attempt(self._core.ask(event))

    async def _attempt(self, step: Awaitable[R]) -> None:
        """Run a step; log a timeout, and keep any other error for the end."""
        try:
            await step
        except KafkaTimeoutError as error:
            log.warning("a step of close() timed out: %s", error, client=self._core.client)
        except BaseException as error:  # noqa: BLE001 - raised after all phases
            self._errors.append(error)

    async def _attempt_commit(self, commit: Awaitable[R]) -> None:
        """Run a step that commits; tell of an interrupt, after which nobody repeats it."""

        async def warned() -> None:
            try:
                await commit
            except Exception:
                raise
            except BaseException as interrupt:
                log.warning(
                    "%s interrupted the last commit, which may be lost; records may be handled "
                    "again",
                    type(interrupt).__name__,
                    client=self._core.client,
                )
                raise

        await self._attempt(warned())

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
            log.error(
                "another error while closing; the first one is raised: %r",
                error,
                client=self._core.client,
            )
        raise first


class ConsumerClosing(Closing):
    """Implements unsubscribe() and close() of ``KafkaConsumer`` and ``AsyncKafkaConsumer``."""

    def __init__(
        self,
        core: Core,
        hooks: Sequence[Hook],
        commits: Commits,
        listener: ListenerCalls,
        iteration: Iteration,
    ) -> None:
        super().__init__(core, hooks)
        self._commits = commits
        self._listener = listener
        self._iteration = iteration

    async def unsubscribe(self) -> None:
        """Release the partitions, leave the group and end the subscription.

        Raises:
            RebalanceCallbackError: The listener raised; all other steps were completed.
        """
        with self._collecting():
            deadline_ms = self._core.deadline_ms(None)
            commit = self._commits.automatic
            await self._release_partitions(deadline_ms, commit=commit, leave=LeaveOperation.DEFAULT)
            if not self._core.closed:
                await self._attempt(self._core.ask(Unsubscribe(deadline_ms=deadline_ms)))

    async def close(
        self,
        *,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        leave_group: object = "default",
    ) -> None:
        """Close the consumer. A second call waits for the first.

        Args:
            autocommit: Whether to commit first, if auto-commit is on.
            timeout_ms: Time limit in milliseconds, never more than `request_timeout_ms`.
            leave_group: "default", "leave" or "remain".

        Raises:
            RebalanceCallbackError: The listener raised.
            BaseException: An interrupt such as KeyboardInterrupt; the consumer is closed.
        """
        leave = check_leave(leave_group)

        async def phases(deadline_ms: int, alone: bool) -> None:
            if alone:
                self._iteration.end()
                commit = autocommit and self._commits.automatic
                await self._release_partitions(deadline_ms, commit=commit, leave=leave)
            elif self._core.engine.subscription.auto_assigned:
                await self._leave(self._core.clock.now_ms() + JOIN_GRACE_MS, leave)
            await self._attempt(self._core.ask(DrainCommits(deadline_ms=deadline_ms)))
            await self._attempt(self._commits.await_pending(deadline_ms, interruptible=False))

        await self._run(timeout_ms, phases)

    async def _end(self, deadline_ms: int) -> None:
        await super()._end(deadline_ms)
        # By now, commits that could not be sent have failed. Their callbacks must run as well.
        await self._attempt(_called(self._commits.run_callbacks))

    async def _release_partitions(
        self, deadline_ms: int, *, commit: bool, leave: LeaveOperation
    ) -> None:
        """Commit, run the listener and leave the group, in this order."""
        subscription = self._core.engine.subscription
        if subscription.auto_assigned:
            await self._attempt(self._core.ask(PrepareToLeave(deadline_ms=deadline_ms)))
        if commit:
            await self._attempt_commit(self._commits.commit_quietly(deadline_ms))
        if not subscription.auto_assigned:
            return
        held = self._listener.unreleased(frozenset(subscription.assigned))
        group = self._core.engine.group
        grouped = self._core.config.group_id is not None
        if grouped and (group.lost or group.metadata.generation_id == NO_GENERATION):
            await self._attempt(_call_listener(self._listener.lost(held)))
        else:
            await self._attempt(_call_listener(self._listener.revoked(held)))
        if self._core.closed:
            return  # the listener has closed the consumer
        await self._leave(deadline_ms, leave)


async def _call_listener(callback: Awaitable[None]) -> None:
    """Call a listener's method; wrap its error as poll() does."""
    try:
        await callback
    except Exception as error:
        raise callback_error(error) from error


async def _called(function: Callable[[], object]) -> None:
    function()


def close_on_any_thread(core: Core, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a close that blocks. Garbage is collected on any thread, also on the network thread."""
    if core.driver.is_current():  # it cannot wait for its own end
        core.driver.offload(lambda: run(close()), lambda _: None)
    else:
        run(close())


def stop_unclosed(consumer: object, core: Core | None) -> bool:
    """Warn that a consumer was dropped without close(), and stop its thread without a commit."""
    if core is None or core.closed or not core.in_own_process:
        return False
    warnings.warn(f"unclosed consumer {consumer!r}", ResourceWarning, source=consumer, stacklevel=3)
    core.engine.loop.stop()
    return True


async def end_network_thread(core: Core, deadline_ms: int) -> None:
    """Let the network thread send its final requests, and wait for its end.

    Raises:
        BaseException: An interrupt; the thread ends nevertheless.
    """
    core.engine.queue.add(Close(deadline_ms=deadline_ms))
    interrupt: BaseException | None = None
    try:
        ended = await core.callers.join(max(deadline_ms, core.clock.now_ms()) + JOIN_GRACE_MS)
    except BaseException as error:  # noqa: BLE001 - Ctrl-C; raised once the thread has ended
        interrupt = error
        core.engine.loop.stop()
        ended = await core.callers.join(core.clock.now_ms() + JOIN_GRACE_MS)
    if not ended:
        log.warning(
            "the network thread did not end by the deadline of close(); it ends in the background",
            client=core.client,
        )
        core.engine.loop.stop()
    if interrupt is not None:
        raise interrupt
