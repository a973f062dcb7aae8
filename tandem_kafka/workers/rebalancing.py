"""The rebalance listeners, which drain and fence, and then call the user's listener."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
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
        ours = self._control.on_assigned(sorted(assigned))
        return self._chain(ours, "on_partitions_assigned", assigned)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> object:
        """Drain and commit the partitions."""
        ours = self._control.on_revoked(sorted(revoked))
        return self._chain(ours, "on_partitions_revoked", revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> object:
        """Fence the partitions."""
        return self._chain(self._control.on_lost(sorted(lost)), "on_partitions_lost", lost)

    def _chain(
        self, ours: Coroutine[Any, Any, None], method: str, partitions: set[TopicPartition]
    ) -> object:
        run(ours)
        return _call(self._listener, method, partitions)


class AsyncWorkersListener(WorkersListener):
    """For an `AsyncKafkaConsumer`, which awaits all of it."""

    async def _chain(
        self, ours: Coroutine[Any, Any, None], method: str, partitions: set[TopicPartition]
    ) -> None:
        await ours
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
