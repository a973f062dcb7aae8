"""Rebalance listeners: kafka-python's classes, or any object with their methods."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol

from tandem_kafka.consumer.core import RECHECK_MS, Core
from tandem_kafka.errors import ArgumentTypeError, RebalanceCallbackError
from tandem_kafka.events.background import BackgroundEvent
from tandem_kafka.events.completable import Completion
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    from tandem_kafka._kafka import ConsumerRebalanceListener
else:
    from kafka.consumer.subscription_state import ConsumerRebalanceListener

__all__ = [
    "ConsumerRebalanceListener",
    "ListenerCalls",
    "RebalanceListener",
    "callback_error",
    "check_listener",
]

_REQUIRED = ("on_partitions_revoked", "on_partitions_assigned")


class RebalanceListener(Protocol):
    """What `subscribe()` takes as a listener: methods or coroutines, each given a set.

    A third, `on_partitions_lost`, may be there; without it `on_partitions_revoked` is called.
    """

    def on_partitions_revoked(self, revoked: set[TopicPartition], /) -> object:
        """Give partitions back; they still are assigned."""

    def on_partitions_assigned(self, assigned: set[TopicPartition], /) -> object:
        """Take over the partitions that are new."""


def check_listener(listener: Any) -> None:
    """Raise if an object cannot be a listener.

    Raises:
        ArgumentTypeError: A method is missing.
    """
    missing = [name for name in _REQUIRED if not callable(getattr(listener, name, None))]
    if listener is not None and missing:
        msg = (
            f"listener must have the methods {', '.join(_REQUIRED)}; "
            f"{type(listener).__name__} has no {' and no '.join(missing)}"
        )
        raise ArgumentTypeError(msg)


def callback_error(error: Exception) -> RebalanceCallbackError:
    """Return what is raised for an exception of a listener, which is its cause."""
    return RebalanceCallbackError(f"User rebalance callback throws an error: {error!r}")


async def _ended(result: Awaitable[object]) -> object:
    return await result


class ListenerCalls:
    """Calls the listener that is registered now, if there is one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.listener: Any = None
        # Both in one, so that they change in one step: an interrupt may come before each store.
        self._progress: tuple[frozenset[TopicPartition], BackgroundEvent | None]
        self._progress = frozenset(), None

    @property
    def released_partitions(self) -> frozenset[TopicPartition]:
        """Partitions whose `on_partitions_revoked` or `on_partitions_lost` has begun.

        They still are assigned. Should the membership end meanwhile, by another's doing or because
        the listener itself unsubscribes or closes, they are not given back twice.
        """
        return self._progress[0]

    @released_partitions.setter
    def released_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self._progress = partitions, self.due

    @property
    def due(self) -> BackgroundEvent | None:
        """The event that poll() deals with, until the listener's method has begun."""
        return self._progress[1]

    @due.setter
    def due(self, event: BackgroundEvent | None) -> None:
        self._progress = self.released_partitions, event

    def unreleased(self, held: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Return what the listener is still to hear of when membership ends."""
        return held - self.released_partitions

    def assigned(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_assigned`, also with nothing new."""
        if self.listener is not None:
            method = self.listener.on_partitions_assigned
            self._call("assigned", method, partitions, self.released_partitions)

    def revoked(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_revoked`, unless there is nothing to revoke."""
        if self.listener is not None and partitions:
            method = self.listener.on_partitions_revoked
            self._call("revoked", method, partitions, self.released_partitions | partitions)

    def lost(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_lost`, or where there is none `on_partitions_revoked`."""
        if self.listener is not None and partitions:
            lost = getattr(self.listener, "on_partitions_lost", None)
            method = lost or self.listener.on_partitions_revoked
            self._call("lost", method, partitions, self.released_partitions | partitions)

    def _call(
        self,
        what: str,
        method: Callable[[set[TopicPartition]], object],
        partitions: AbstractSet[TopicPartition],
        released_partitions: frozenset[TopicPartition],
    ) -> None:
        clock = self._core.clock
        told, progress = set(partitions), (released_partitions, None)
        began_ms = clock.now_ms()
        try:
            # Right before the call: an interrupt comes before both, or to the method.
            self._progress = progress
            result = method(told)
            if inspect.isawaitable(result):
                self._await(result)
        finally:
            took_ms = clock.now_ms() - began_ms
            self._core.engine.metrics.record(f"partition-{what}-latency", took_ms)

    def _await(self, result: Awaitable[object]) -> None:
        """Run a coroutine of the listener to its end, on an event loop of its own.

        A thread with a running loop cannot have another: there the coroutine runs elsewhere.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(_ended(result))
            return
        outcome: Completion[object] = Completion()
        driver, clock = self._core.driver, self._core.clock

        def done(found: object) -> None:
            if isinstance(found, BaseException):
                outcome.fail(found)
            else:
                outcome.complete(found)
            driver.notify()

        driver.offload(lambda: asyncio.run(_ended(result)), done)
        while not driver.wait(lambda: outcome.done, clock.now_ms() + RECHECK_MS):
            pass
        outcome.result()
