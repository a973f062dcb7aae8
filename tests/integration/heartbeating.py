"""Members of KIP-848 groups that are nothing but their heartbeats, sent as a test wants them.

They speak to a real coordinator or to the simulated one, which has to answer alike.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tandem_kafka.errors import InvalidRegularExpressionError, for_code
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.integration.lines import Line

__all__ = ["Answer", "Owned", "RawMember"]

Owned = Mapping[UUID, list[int]]

_VERSION = 1
_OWNED = ConsumerGroupHeartbeatRequest.TopicPartitions
#: Those that kafka-python has no class for.
_OTHERS = {error.errno: error for error in (InvalidRegularExpressionError,)}


class Answer:
    """What a coordinator answers to a heartbeat.

    Attributes:
        error: Name of the error's class, None if there was none.
        member_id: What it says the member is called; None with an error.
        assigned: The assignment, None if the answer says nothing of it.
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
        """How many partitions are assigned by this answer."""
        return sum(map(len, (self.assigned or {}).values()))

    def __repr__(self) -> str:
        return f"Answer({self.error}, {self.epoch}, {self.assigned})"


class RawMember:
    """Speaks to the coordinator; keeps no epoch and no assignment of its own.

    Attributes:
        rebalance_ms: How long it may take to give back, as it says in full heartbeats.
        topics: What it subscribes to, as it says in full heartbeats.
    """

    def __init__(
        self, coordinator: Line, group: str, topic: str, instance: str | None = None
    ) -> None:
        self._coordinator = coordinator
        self.member_id = uuid.uuid4().hex
        self._group = group
        self._instance = instance
        self.rebalance_ms = 30_000
        self.topics = [topic]

    def join(self, owned: Owned | None = None, *, assignor: str | None = None) -> Answer:
        """A heartbeat of epoch 0 that says everything, and that nothing is owned."""
        return self.beat(0, owned or {}, full=True, assignor=assignor)

    def beat(
        self,
        epoch: int,
        owned: Owned | None = None,
        *,
        full: bool = False,
        regex: str = "",
        assignor: str | None = None,
    ) -> Answer:
        """Send a heartbeat and return its answer; a full one names the subscription too."""
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
        return self.say(member_epoch=epoch, server_assignor=assignor, **fields)

    def say(self, version: int = _VERSION, **fields: Any) -> Answer:
        """Send a heartbeat of these fields, which need not make sense; returns its answer."""
        named = {
            "group_id": self._group,
            "member_id": self.member_id,
            "instance_id": self._instance,
            **fields,
        }
        request = ConsumerGroupHeartbeatRequest(**named)
        return Answer(self._coordinator.ask(request, ConsumerGroupHeartbeatResponse, version))

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._coordinator.sleep(seconds)

    def beat_until(
        self, epoch: int, news: Callable[[Answer], object], owned: Owned | None = None
    ) -> Answer:
        """Repeat a heartbeat until its answer brings news; an error is none."""
        for _ in range(200):
            answer = self.beat(epoch, owned)
            assert answer.error is None, answer
            if news(answer):
                return answer
            self._coordinator.sleep(0.05)
        raise AssertionError(f"no news; {answer}")
