"""The rebalance listeners, which drain and fence, and then call the user's listener."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tandem_kafka.runtime.callers import run
from tandem_kafka.types import TopicPartition
from tandem_kafka.workers.control import Control


class WorkersListener:
    """For a `KafkaConsumer`. The consumer awaits coroutines that the user's listener returns."""

    def __init__(self, control: Control, listener: Any) -> None:
        self._control = control
        self._listener = listener

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> object:
        """Begin the partitions."""
        run(self._control.on_assigned(sorted(assigned)))
        return _call(self._listener, "on_partitions_assigned", assigned)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> object:
        """Drain and commit the partitions."""
        run(self._control.on_revoked(sorted(revoked)))
        return _call(self._listener, "on_partitions_revoked", revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> object:
        """Fence the partitions."""
        run(self._control.on_lost(sorted(lost)))
        return _call(self._listener, "on_partitions_lost", lost)


class AsyncWorkersListener:
    """For an `AsyncKafkaConsumer`."""

    def __init__(self, control: Control, listener: Any) -> None:
        self._control = control
        self._listener = listener

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Begin the partitions."""
        await self._control.on_assigned(sorted(assigned))
        await self._chain("on_partitions_assigned", assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Drain and commit the partitions."""
        await self._control.on_revoked(sorted(revoked))
        await self._chain("on_partitions_revoked", revoked)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Fence the partitions."""
        await self._control.on_lost(sorted(lost))
        await self._chain("on_partitions_lost", lost)

    async def _chain(self, method: str, partitions: set[TopicPartition]) -> None:
        result = _call(self._listener, method, partitions)
        if inspect.isawaitable(result):
            await result


def _call(listener: Any, method: str, partitions: set[TopicPartition]) -> object:
    """Call the user's listener; `on_partitions_lost` is optional, as for a consumer."""
    if listener is None:
        return None
    found: Callable[[set[TopicPartition]], object] | None = getattr(listener, method, None)
    if found is None:
        found = listener.on_partitions_revoked
    return found(partitions)
