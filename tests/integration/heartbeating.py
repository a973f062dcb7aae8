"""Raw members of KIP-848 groups: a test chooses each heartbeat.

They connect to a real or to a simulated coordinator. Both must respond alike.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tandem_kafka.errors import InvalidRegularExpressionError, for_code
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.integration.connections import Connection

__all__ = ["HeartbeatResult", "Owned", "RawMember"]

Owned = Mapping[UUID, list[int]]

_VERSION = 1
_OWNED = ConsumerGroupHeartbeatRequest.TopicPartitions
#: Errors for which kafka-python has no class.
_OTHERS = {error.errno: error for error in (InvalidRegularExpressionError,)}


class HeartbeatResult:
    """The response to a heartbeat.

    Attributes:
        error: The name of the error's class, or None.
        member_id: The member id in the response; None with an error.
        assigned: The assignment; None if the response has none.
    """

    def __init__(self, message: Any) -> None:
        code = message.error_code
        error = _OTHERS.get(code) or for_code(code)
        self.error: str | None = error.__name__ if code else None
        self.epoch: int = message.member_epoch
        self.member_id: str | None = message.member_id
        self.assigned: dict[UUID, list[int]] | None = None
        if message.assignment is not None:
            entries = message.assignment.topic_partitions
            self.assigned = {entry.topic_id: sorted(entry.partitions) for entry in entries}

    @property
    def count(self) -> int:
        """The number of partitions in the assignment."""
        return sum(map(len, (self.assigned or {}).values()))

    def __repr__(self) -> str:
        return f"HeartbeatResult({self.error}, {self.epoch}, {self.assigned})"


class RawMember:
    """Sends heartbeats; keeps neither an epoch nor an assignment.

    Attributes:
        rebalance_ms: The rebalance timeout in full heartbeats.
        topics: The subscription in full heartbeats.
    """

    def __init__(
        self, coordinator: Connection, group: str, topic: str, instance: str | None = None
    ) -> None:
        self._coordinator = coordinator
        self.member_id = uuid.uuid4().hex
        self._group = group
        self._instance = instance
        self.rebalance_ms = 30_000
        self.topics = [topic]

    def join(self, owned: Owned | None = None, *, assignor: str | None = None) -> HeartbeatResult:
        """Send a full heartbeat of epoch 0 that owns nothing."""
        return self.beat(0, owned or {}, full=True, assignor=assignor)

    def beat(
        self,
        epoch: int,
        owned: Owned | None = None,
        *,
        full: bool = False,
        regex: str = "",
        assignor: str | None = None,
    ) -> HeartbeatResult:
        """Send a heartbeat and return its response; a full one has the subscription too."""
        fields: dict[str, Any] = {}
        if full:
            fields = {
                "rebalance_timeout_ms": self.rebalance_ms,
                "subscribed_topic_names": self.topics,
                "subscribed_topic_regex": regex,
            }
        if owned is not None:
            fields["topic_partitions"] = [
                _OWNED(topic_id=topic_id, partitions=list(numbers))
                for topic_id, numbers in owned.items()
            ]
        return self.send_heartbeat(member_epoch=epoch, server_assignor=assignor, **fields)

    def send_heartbeat(self, version: int = _VERSION, **fields: Any) -> HeartbeatResult:
        """Send a heartbeat with any fields, valid or not; returns its response."""
        named = {
            "group_id": self._group,
            "member_id": self.member_id,
            "instance_id": self._instance,
            **fields,
        }
        request = ConsumerGroupHeartbeatRequest(**named)
        return HeartbeatResult(
            self._coordinator.exchange(request, ConsumerGroupHeartbeatResponse, version)
        )

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._coordinator.sleep(seconds)

    def beat_until(
        self, epoch: int, news: Callable[[HeartbeatResult], object], owned: Owned | None = None
    ) -> HeartbeatResult:
        """Repeat a heartbeat until `news(response)`; an error fails the test."""
        for _ in range(200):
            response = self.beat(epoch, owned)
            assert response.error is None, response
            if news(response):
                return response
            self._coordinator.sleep(0.05)
        raise AssertionError(f"no news; {response}")
