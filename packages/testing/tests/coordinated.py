"""A simulated coordinator without clients: a test passes requests to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem_kafka.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from tandem_kafka_testing import Call, Simulation
from tandem_kafka_testing.cluster.apis import APIS
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup

__all__ = ["GROUP", "Coordinated", "dealt"]

GROUP = "readers"
_ENTRY = ConsumerGroupInstallAssignmentRequest.Member

#: Partition numbers of `orders`, by member.
Numbers = Mapping[str, list[int]]


class Coordinated:
    """One group on topic `orders` with four partitions; there is a second topic `more`."""

    def __init__(self) -> None:
        self.simulation = Simulation(brokers=2)
        self.cluster = self.simulation.cluster
        self.topic_id = self.cluster.create_topic("orders", 4).topic_id
        self.cluster.create_topic("more", 1)
        self.epochs: dict[str, int] = {}

    @property
    def group(self) -> ConsumerGroup:
        return self.cluster.consumer_group(GROUP)

    @property
    def computes(self) -> str | None:
        current = self.group.computations.current
        return None if current is None else current.member_id

    def ask(self, message: Any, node_id: int | None = None) -> Any:
        node_id = self.cluster.coordinator_of(GROUP) if node_id is None else node_id
        broker, nothing = self.cluster.brokers[node_id], Any
        api = APIS[message.API_KEY]
        version = api.versions[1]
        call = Call(self.cluster, broker, nothing, message.API_KEY, version, 0, message)  # type: ignore[arg-type]
        return api.handle(call)

    # --- a member ------------------------------------------------------------------------------

    def join(self, member_id: str, *assignors: Any, **fields: Any) -> Any:
        fields.setdefault("client_assignors", list(assignors))
        fields.setdefault("subscribed_topic_names", ["orders"])
        return self.beat(member_id, 0, topic_partitions=[], rebalance_timeout_ms=60_000, **fields)

    def beat(self, member_id: str, epoch: int | None = None, **fields: Any) -> Any:
        epoch = self.epochs[member_id] if epoch is None else epoch
        answer = self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields
            )
        )
        if not answer.error_code:
            self.epochs[member_id] = answer.member_epoch
        return answer

    def prepare(self, member_id: str, epoch: int | None = None, **named: Any) -> Any:
        epoch = self.epochs.get(member_id, 1) if epoch is None else epoch
        named.setdefault("group_id", GROUP)
        return self.ask(
            ConsumerGroupPrepareAssignmentRequest(member_id=member_id, member_epoch=epoch, **named)
        )

    def install(
        self,
        member_id: str,
        numbers: Numbers,
        group_epoch: int | None = None,
        epoch: int | None = None,
        **fields: Any,
    ) -> int:
        """Install an assignment; returns the error."""
        fields.setdefault("group_id", GROUP)
        fields.setdefault("error_code", 0)
        fields.setdefault("members", [self.entry(who, each) for who, each in numbers.items()])
        message = ConsumerGroupInstallAssignmentRequest(
            member_id=member_id,
            member_epoch=self.epochs.get(member_id, 1) if epoch is None else epoch,
            group_epoch=self.group.epoch if group_epoch is None else group_epoch,
            error_message=None,
            **fields,
        )
        return int(self.ask(message).error_code)

    def entry(
        self,
        member_id: str,
        numbers: list[int],
        topic_id: Any = None,
        metadata: bytes = b"",
        error: int = 0,
    ) -> Any:
        partitions = _ENTRY.TopicPartitions(topic_id=topic_id or self.topic_id, partitions=numbers)
        return _ENTRY(
            member_id=member_id,
            partitions=[partitions],
            metadata_version=len(metadata) and 1,
            metadata_bytes=metadata,
            error=error,
        )

    def compute(self, member_id: str) -> None:
        """Prepare and install the assignment `dealt`."""
        prepared = self.prepare(member_id)
        assert prepared.error_code == 0
        names = [each.member_id for each in prepared.members]
        assert self.install(member_id, dealt(names), prepared.group_epoch) == 0

    def describe(self) -> Any:
        message = ConsumerGroupDescribeRequest(
            group_ids=[GROUP], include_authorized_operations=False
        )
        return self.ask(message).groups[0]

    # --- what happens --------------------------------------------------------------------------

    def fail_over(self) -> None:
        self.cluster.fail_over(GROUP, 3 - self.cluster.coordinator_of(GROUP))

    def targets(self) -> dict[str, list[int]]:
        return {
            member_id: sorted(tp.partition for tp in tps)
            for member_id, tps in self.group.target.items()
        }


def dealt(names: list[str]) -> dict[str, list[int]]:
    """Four partitions, one by one."""
    return {name: list(range(4))[at :: len(names)] for at, name in enumerate(sorted(names))}
