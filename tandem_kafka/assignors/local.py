"""The interface of client-side assignors for KIP-848 groups.

No released broker supports them; the simulated cluster of `tandem_kafka_testing` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tandem_kafka.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of the group, as an assignor sees it.

    Attributes:
        member_id: The member id.
        instance_id: The ``group_instance_id`` of a static member, else None.
        rack: The rack (``client_rack``), empty if unknown.
        topics: The subscribed topics; regular expressions are resolved.
        owned: The partitions that the member owns, including those it must still release.
        target: The member's previous target assignment.
        metadata_version: The version of the metadata.
        metadata: The result of ``metadata()`` of the member's own assignor of this name.
        reason: The reason for a change of the metadata, 0 for none.
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
    """The assignment of one member.

    Attributes:
        partitions: The assigned partitions.
        metadata: Data for the member's own assignor of the same name, which only the assignors
            interpret.
        metadata_version: The version of the metadata, from 0 to 32767.
        error: An error code for the member's own assignor, from 0 (no error) to 127.
    """

    partitions: Collection[TopicPartition]
    metadata: bytes = b""
    metadata_version: int = 0
    error: int = 0


class PartitionAssignor(ABC):
    """The base class of assignors for the option ``group_local_assignors``.

    Its methods run on a separate thread, one at a time. The coordinator chooses an assignor that
    all members have, and a member whose assignor can read the metadata of all members: their
    ``version`` must be between its ``minimum_version`` and ``maximum_version``.

    Attributes:
        name: The name, which must be the same for all members.
        minimum_version: The oldest version of metadata that ``assign`` can read.
        maximum_version: The newest version of metadata that ``assign`` can read.
        version: The version of the metadata that ``metadata`` returns.
        reason: The reason for a change of the metadata, 0 for none.
    """

    name: str
    minimum_version: int = 0
    maximum_version: int = 0
    version: int = 0
    reason: int = 0

    def metadata(self) -> bytes:
        """Return data about this member for the member that computes the assignment.

        This method is called before each heartbeat. A new value triggers a new assignment.
        """
        return b""

    @abstractmethod
    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Collection[TopicPartition] | MemberAssignment]:
        """Compute the assignment of all members.

        Args:
            members: All members by member id.
            topics: The number of partitions by topic name.

        Returns:
            The partitions by member id, optionally with metadata for the member's own assignor.
            Each partition may occur only once, and the member must subscribe to its topic. A
            member without an entry gets no partitions.
        """

    def on_assignment(self, assignment: MemberAssignment) -> None:  # noqa: B027 - few need it
        """Process this member's new assignment, which an assignor of this name has computed.

        This method is called before the rebalance listener, and again when the partitions or the
        metadata change. The assignment only contains partitions that are already free. Others
        follow with the same metadata after their owners have released them.

        Args:
            assignment: The partitions and metadata of this member.
        """
