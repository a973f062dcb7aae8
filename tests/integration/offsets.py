"""Raw requests that commit and fetch offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem_kafka.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.integration.connections import Connection
from tests.integration.joining import name_of

__all__ = ["RawOffsets", "entries_of"]

#: The last versions with topic names instead of ids.
_COMMIT_VERSION = 9
_FETCH_VERSION = 9
_PARTITIONS = range(4)


def entries_of(kind: Any, offsets: Mapping[str, int]) -> list[Any]:
    """Return the partitions of a commit, which are given as in `p0=5`."""
    return [
        kind(
            partition_index=int(name[1:]),
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        for name, offset in offsets.items()
    ]


class RawOffsets:
    """Sends requests to the coordinator as any member."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic

    def commit(
        self, member_id: str, generation: int, instance: str | None = None, **offsets: int
    ) -> str | None:
        """Commit offsets, given as in `p0=5`; returns the error, the same for all partitions."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        entries = entries_of(topic.OffsetCommitRequestPartition, offsets)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[topic(name=self._topic, partitions=entries)],
        )
        response = self._connection.exchange(request, OffsetCommitResponse, _COMMIT_VERSION)
        (code,) = {p.error_code for topic in response.topics for p in topic.partitions}
        return name_of(code)

    def committed(self) -> dict[int, int]:
        """Return the committed offsets by partition."""
        error, found = self.fetch(None, -1)
        assert error is None
        return found

    def fetch(
        self, member_id: str | None, epoch: int, *, stable: bool = False
    ) -> tuple[str | None, dict[int, int]]:
        """Fetch the committed offsets as a member; returns the error of the group, and the offsets.

        A partition with an unstable offset is not among them.
        """
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        topic = group.OffsetFetchRequestTopics(
            name=self._topic, partition_indexes=list(_PARTITIONS)
        )
        request = OffsetFetchRequest(
            groups=[
                group(group_id=self._group, member_id=member_id, member_epoch=epoch, topics=[topic])
            ],
            require_stable=stable,
        )
        (group_result,) = self._connection.exchange(
            request, OffsetFetchResponse, _FETCH_VERSION
        ).groups
        entries = [entry for each in group_result.topics for entry in each.partitions]
        assert {name_of(e.error_code) for e in entries} <= {None, "UnstableOffsetCommitError"}
        found = {e.partition_index: e.committed_offset for e in entries if e.committed_offset >= 0}
        return name_of(group_result.error_code), found
