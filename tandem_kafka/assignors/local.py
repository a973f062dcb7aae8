"""Assignors that a KIP-848 group's members bring along and run themselves.

No released broker has a group's members compute: `tandem_kafka.testing` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tandem_kafka.types import TopicPartition

__all__ = ["GroupMember", "MemberAssignment", "PartitionAssignor"]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of the group, as an assignor sees it.

    Attributes:
        member_id: Its id.
        instance_id: Its name, if it is a static member.
        rack: Its rack, empty if it did not say.
        topics: What it subscribes to; expressions are resolved.
        owned: What it has, or has still to give back.
        target: What it was to have so far.
        metadata_version: Version of its metadata.
        metadata: What its own assignor of this name said.
        reason: Why its metadata has changed, 0 for no reason.
    """

    member_id: str
    instance_id: str | None
    rack: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    target: frozenset[TopicPartition]
    metadata_version: int
    metadata: bytes
    reason: int


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """What one member is to have.

    Attributes:
        partitions: Its partitions.
        metadata: What its own assignor of the same name is told along with them; only the
            assignors read it.
        metadata_version: Version of the metadata, from 0 to 32767.
        error: A number that says what is wrong with this member's share, for its own assignor to
            understand; from 0, nothing, to 127.
    """

    partitions: Collection[TopicPartition]
    metadata: bytes = b""
    metadata_version: int = 0
    error: int = 0


class PartitionAssignor(ABC):
    """For `group_local_assignors`; its methods run on a thread of their own, one at a time.

    The group uses an assignor that all members have, and lets one compute that reads everybody's
    metadata: its `minimum_version` to `maximum_version` must hold every member's `version`.

    Attributes:
        name: What members know it by.
        minimum_version: The oldest version of metadata that `assign` reads.
        maximum_version: The newest.
        version: That of what `metadata` returns.
        reason: Sent along with the metadata, 0 for no reason.
    """

    name: str
    minimum_version: int = 0
    maximum_version: int = 0
    version: int = 0
    reason: int = 0

    def metadata(self) -> bytes:
        """Return what the member that computes is to know of this one.

        Asked before each heartbeat; when it returns something new, the group is assigned anew.
        """
        return b""

    @abstractmethod
    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Collection[TopicPartition] | MemberAssignment]:
        """Return the partitions of each member, with metadata for its own assignor if there is any.

        Args:
            members: All members, by id.
            topics: How many partitions each topic has, by name.

        Returns:
            Partitions by member id, each partition at most once and of a topic that the member
            subscribes to. Who is left out gets nothing.
        """

    def on_assignment(self, assignment: MemberAssignment) -> None:  # noqa: B027 - few need it
        """This member is about to take over what an assignor of this name computed, here or there.

        Called before the rebalance listener, and again whenever partitions or metadata change. Of
        the partitions that the member is to have, those are named that are free already: others
        follow when their owners have given them back, with the same metadata.

        Args:
            assignment: What this member has from now on, and what `assign` handed to it.
        """
