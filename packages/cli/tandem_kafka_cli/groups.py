"""Groups as their coordinators describe them, in all protocols of consumers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tandem_kafka.types import TopicPartition

#: The state of a group that does not exist, or has the other protocol.
DEAD: Final = "Dead"
#: The state of a group that this user may not describe.
DENIED: Final = "not authorized"
_UNKNOWN_LAG: Final = -1


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in the list of a coordinator.

    Attributes:
        group_id: Its name.
        protocol: `classic`, `consumer` (KIP-848), `share` (KIP-932), or another type of group.
        kind: The type of the members: `consumer` for consumers of the classic protocol.
        state: Its state; empty before Kafka 2.6.
    """

    group_id: str
    protocol: str
    kind: str
    state: str

    @property
    def of_consumers(self) -> bool:
        """Whether its members are consumers of topics."""
        return self.protocol in {"consumer", "share"} or (
            self.protocol == "classic" and self.kind in {"consumer", ""}
        )


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        epoch: The member epoch, None in a classic group.
        assigned: The partitions that it owns, or shares.
        target: The partitions that it will own (KIP-848), None in other groups.
        topics: The topics to which it is subscribed, in a share group; None in other groups.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    epoch: int | None = None
    assigned: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group with its members.

    Attributes:
        epoch: The group epoch, None in a classic group.
        assignment_epoch: The epoch of the target assignment, None in a classic group.
        assignor: The assignor in use; empty if there is none.
    """

    group_id: str
    protocol: str
    state: str
    assignor: str
    epoch: int | None = None
    assignment_epoch: int | None = None
    members: tuple[Member, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class StartOffset:
    """How far a share group is in a partition.

    Attributes:
        offset: The first offset that is not done; None until an acknowledgement is stored.
        lag: The number of records that are not done, including those being processed; None while
            the broker does not know it.
    """

    offset: int | None
    leader_epoch: int
    lag: int | None


def classic_group(described: dict[str, Any]) -> Group:
    """Return a group that kafka-python's client has described."""
    return Group(
        described["group_id"],
        "classic",
        described["group_state"],
        described["protocol_data"],
        members=tuple(
            [
                Member(
                    each["member_id"],
                    each["client_id"],
                    each["client_host"].lstrip("/"),
                    each.get("group_instance_id"),
                    assigned=_of_classic(each["member_assignment"]),
                )
                for each in described["members"]
            ]
        ),
    )


def _of_classic(assignment: Any) -> tuple[TopicPartition, ...]:
    if not isinstance(assignment, dict):
        return ()
    topics = assignment["assigned_partitions"]
    return tuple(
        sorted(TopicPartition(each["topic"], n) for each in topics for n in each["partitions"])
    )


def consumer_group(described: Any) -> Group:
    """Return a KIP-848 group of a ConsumerGroupDescribe response."""
    return Group(
        described.group_id,
        "consumer",
        described.group_state,
        described.assignor_name,
        described.group_epoch,
        described.assignment_epoch,
        tuple(
            [
                Member(
                    each.member_id,
                    each.client_id,
                    each.client_host.lstrip("/"),
                    each.instance_id,
                    each.member_epoch,
                    _of_consumer(each.assignment.topic_partitions),
                    _of_consumer(each.target_assignment.topic_partitions),
                )
                for each in described.members
            ]
        ),
    )


def share_group(described: Any) -> Group:
    """Return a share group of a ShareGroupDescribe response."""
    return Group(
        described.group_id,
        "share",
        described.group_state,
        described.assignor_name,
        described.group_epoch,
        described.assignment_epoch,
        tuple(
            [
                Member(
                    each.member_id,
                    each.client_id,
                    each.client_host.lstrip("/"),
                    epoch=each.member_epoch,
                    assigned=_of_consumer(each.assignment.topic_partitions),
                    topics=tuple(sorted(each.subscribed_topic_names)),
                )
                for each in described.members
            ]
        ),
    )


def start_offsets(described: Any) -> dict[TopicPartition, StartOffset]:
    """Return the partitions of a group in a DescribeShareGroupOffsets response."""
    return {
        TopicPartition(topic.topic_name, each.partition_index): StartOffset(
            each.start_offset if each.start_offset >= 0 else None,
            each.leader_epoch,
            # It is negative if the start offset is behind the end.
            max(0, each.lag) if each.lag != _UNKNOWN_LAG else None,
        )
        for topic in sorted(described.topics, key=lambda topic: topic.topic_name)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    }


def _of_consumer(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(each.topic_name, n) for each in topics for n in each.partitions)
    )


def shown_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions by topic in a short form: `orders:0-3,7 payments:1`."""
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return " ".join(f"{topic}:{_ranges(sorted(each))}" for topic, each in sorted(by_topic.items()))


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
