"""Calls rebalance listeners: subclasses of kafka-python's class, or any object with its methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from tandem_kafka.consumer.core import Core
from tandem_kafka.errors import RebalanceCallbackError, reason_of
from tandem_kafka.events.background import BackgroundEvent
from tandem_kafka.types import TopicPartition


def callback_error(error: Exception) -> RebalanceCallbackError:
    """Return the error to raise for an exception of a listener."""
    # The repr of an OSError lacks the path.
    told = f"{type(error).__name__}: {reason_of(error)}"
    return RebalanceCallbackError(f"User rebalance callback throws an error: {told}")


class ListenerCalls:
    """Calls the registered listener, if any."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.listener: Any = None
        # One attribute, so that both values change in one step: an interrupt may precede any store.
        self._progress: tuple[frozenset[TopicPartition], BackgroundEvent | None]
        self._progress = frozenset(), None

    @property
    def released_partitions(self) -> frozenset[TopicPartition]:
        """Partitions that have been passed to `on_partitions_revoked` or `on_partitions_lost`.

        They are still assigned until the network thread knows that the callback has ended. The
        membership may end in the meantime, even because the listener itself unsubscribes or closes.
        Invariant: these partitions are not passed to the listener again.
        """
        return self._progress[0]

    @released_partitions.setter
    def released_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self._progress = partitions, self.due

    @property
    def due(self) -> BackgroundEvent | None:
        """The event that poll() is processing, until the call of the listener's method starts."""
        return self._progress[1]

    @due.setter
    def due(self, event: BackgroundEvent | None) -> None:
        self._progress = self.released_partitions, event

    def unreleased(self, held: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the partitions that the listener must release when the membership ends."""
        return held - self.released_partitions

    async def assigned(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_assigned`, even if no partition is new."""
        if self.listener is not None:
            method = self.listener.on_partitions_assigned
            await self._call("assigned", method, partitions, self.released_partitions)

    async def revoked(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_revoked` if there are partitions to revoke."""
        if self.listener is not None and partitions:
            method = self.listener.on_partitions_revoked
            await self._call("revoked", method, partitions, self.released_partitions | partitions)

    async def lost(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_lost`, or `on_partitions_revoked` if the listener lacks it."""
        if self.listener is not None and partitions:
            lost = getattr(self.listener, "on_partitions_lost", None)
            method = lost or self.listener.on_partitions_revoked
            await self._call("lost", method, partitions, self.released_partitions | partitions)

    async def _call(
        self,
        what: str,
        method: Callable[[set[TopicPartition]], object],
        partitions: AbstractSet[TopicPartition],
        released_partitions: frozenset[TopicPartition],
    ) -> None:
        clock = self._core.clock
        argument, progress = set(partitions), (released_partitions, None)
        began_ms = clock.now_ms()
        try:
            # Directly before the call: an interrupt then precedes both or occurs in the method.
            self._progress = progress
            result = method(argument)
            if inspect.isawaitable(result):
                await self._core.callers.finish(result)
        finally:
            took_ms = clock.now_ms() - began_ms
            self._core.engine.metrics.record(f"partition-{what}-latency", took_ms)
