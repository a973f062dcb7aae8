"""What simulated brokers do with the metrics of clients (KIP-714)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from zlib import crc32

from kafka import errors


@dataclass(frozen=True, slots=True)
class Push:
    """One accepted push: when, from which client, to which broker, and the compressed metrics."""

    at_ms: int
    client_instance_id: UUID
    node_id: int
    terminating: bool
    compression: int
    metrics: bytes


@dataclass
class TelemetryReceiver:
    """A subscription for all clients, and their pushes.

    Attributes:
        prefixes: Of the names of requested metrics; none for no metrics, "*" for all.
        interval_ms: Between two pushes.
        accepted: Ids of compression types, the preferred one first.
        delta: Whether sums are to be differences.
        max_bytes: The largest accepted push.
        pushes: The accepted pushes.
    """

    prefixes: tuple[str, ...] = ("*",)
    interval_ms: int = 10_000
    accepted: tuple[int, ...] = (4, 3, 1, 2)
    delta: bool = True
    max_bytes: int = 1_048_576
    pushes: list[Push] = field(default_factory=list)
    _last_ms: dict[tuple[UUID, int], int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The id of the present subscription."""
        return crc32(repr((self.prefixes, self.interval_ms)).encode()) & 0x7FFF_FFFF

    def push_error(self, request: Any, node_id: int, now_ms: int) -> Any:
        """Return the error class for a push, None if it is accepted."""
        client = request.client_instance_id, node_id
        early = now_ms - self._last_ms.get(client, -self.interval_ms) < self.interval_ms
        if early and not request.terminating:
            return errors.ThrottlingQuotaExceededError
        if request.subscription_id != self.number:
            return errors.UnknownSubscriptionIdError
        if request.compression_type not in (0, *self.accepted):
            return errors.UnsupportedCompressionTypeError
        if len(request.metrics) > self.max_bytes:
            return errors.TelemetryTooLargeError
        self._last_ms[client] = now_ms
        return None
