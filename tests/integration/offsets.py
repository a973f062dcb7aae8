"""Commits and look-ups of committed offsets that are nothing but their requests."""

from __future__ import annotations

from typing import Any

from tandem_kafka.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.integration.joining import name_of
from tests.integration.lines import Line

__all__ = ["RawOffsets"]

#: The last versions that name topics and not their ids.
_COMMIT_VERSION = 9
_FETCH_VERSION = 9
_PARTITIONS = range(4)


class RawOffsets:
    """Speaks to the coordinator for whoever it is told to."""

    def __init__(self, line: Line, group: str, topic: str) -> None:
        self._line = line
        self._group = group
        self._topic = topic

    def commit(
        self, member_id: str, generation: int, instance: str | None = None, **offsets: int
    ) -> str | None:
        """Commit offsets of partitions by `p0=5`; returns the error, which all of them have."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        entries = [
            topic.OffsetCommitRequestPartition(
                partition_index=int(name[1:]),
                committed_offset=offset,
                committed_leader_epoch=-1,
                committed_metadata="",
            )
            for name, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[topic(name=self._topic, partitions=entries)],
        )
        answer = self._ask(request, OffsetCommitResponse, _COMMIT_VERSION)
        (code,) = {p.error_code for told in answer.topics for p in told.partitions}
        return name_of(code)

    def committed(self) -> dict[int, int]:
        """Return what is committed, by partition."""
        error, found = self.fetch(None, -1)
        assert error is None
        return found

    def fetch(
        self, member_id: str | None, epoch: int, *, stable: bool = False
    ) -> tuple[str | None, dict[int, int]]:
        """Ask as a member for what is committed; returns the error of the group, and the offsets.

        A partition whose offset is not to be told yet is not among them.
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
        (told,) = self._ask(request, OffsetFetchResponse, _FETCH_VERSION).groups
        entries = [entry for each in told.topics for entry in each.partitions]
        assert {name_of(e.error_code) for e in entries} <= {None, "UnstableOffsetCommitError"}
        found = {e.partition_index: e.committed_offset for e in entries if e.committed_offset >= 0}
        return name_of(told.error_code), found

    def _ask(self, request: Any, kind: Any, version: int) -> Any:
        request.with_header(correlation_id=1, client_id="raw")
        body = self._line.exchange(request.encode(version=version, header=True, framed=True))
        return kind.decode(body, version=version, header=True)
