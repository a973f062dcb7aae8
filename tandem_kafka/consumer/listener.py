"""Rebalance listeners: kafka-python's class, or any object with its methods."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from kafka.consumer.subscription_state import ConsumerRebalanceListener

from tandem_kafka.consumer.core import Core
from tandem_kafka.errors import InvalidArgumentError, RebalanceCallbackError
from tandem_kafka.types import TopicPartition

__all__ = ["ConsumerRebalanceListener", "ListenerCalls", "callback_error", "check_listener"]

_REQUIRED = ("on_partitions_revoked", "on_partitions_assigned")


def check_listener(listener: Any) -> None:
    """Raise if an object cannot be a listener.

    Raises:
        InvalidArgumentError: A method is missing.
    """
    missing = [name for name in _REQUIRED if not callable(getattr(listener, name, None))]
    if listener is not None and missing:
        msg = (
            f"listener must have the methods {', '.join(_REQUIRED)}; "
            f"{type(listener).__name__} has no {' and no '.join(missing)}"
        )
        raise InvalidArgumentError(msg)


def callback_error(error: Exception) -> RebalanceCallbackError:
    """Return what is raised for an exception of a listener, which is its cause."""
    return RebalanceCallbackError(f"User rebalance callback throws an error: {error!r}")


class ListenerCalls:
    """Calls the listener that is registered now, if there is one.

    Attributes:
        given_back: Partitions whose `on_partitions_revoked` or `on_partitions_lost` has begun,
            while they still are assigned: should the membership end meanwhile, by another's doing
            or because the listener itself unsubscribes or closes, they are not given back twice.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.listener: Any = None
        self.given_back: frozenset[TopicPartition] = frozenset()

    def not_given_back(self, held: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Return what the listener is still to hear of when membership ends."""
        return held - self.given_back

    def assigned(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_assigned`, also with nothing new."""
        if self.listener is not None:
            self._call("assigned", self.listener.on_partitions_assigned, partitions)

    def revoked(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_revoked`, unless there is nothing to revoke."""
        self.given_back |= partitions
        if self.listener is not None and partitions:
            self._call("revoked", self.listener.on_partitions_revoked, partitions)

    def lost(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Call `on_partitions_lost`, or where there is none `on_partitions_revoked`."""
        self.given_back |= partitions
        if self.listener is not None and partitions:
            lost = getattr(self.listener, "on_partitions_lost", None)
            self._call("lost", lost or self.listener.on_partitions_revoked, partitions)

    def _call(
        self,
        what: str,
        method: Callable[[set[TopicPartition]], object],
        partitions: AbstractSet[TopicPartition],
    ) -> None:
        clock = self._core.clock
        began_ms = clock.now_ms()
        try:
            method(set(partitions))
        finally:
            took_ms = clock.now_ms() - began_ms
            self._core.link.metrics.record(f"partition-{what}-latency", took_ms)
