"""A member of a share group that sends raw requests, and its results as plain values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest

from tandem_kafka.wire.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tandem_kafka_testing.kafka.jars import chosen_version, release_of
from tests.integration.connections import Connection

__all__ = ["FIRST_RELEASE", "Fetched", "RawShareMember", "Shared", "require_share_groups"]

#: The first release with share groups.
FIRST_RELEASE: Final = (4, 2)

#: First and last offset, and one type for all offsets or one for each.
Acks = Sequence[tuple[int, int, Sequence[int]]]
_FETCHED = ShareFetchRequest.FetchTopic
_FETCHED_PARTITION = _FETCHED.FetchPartition
_ACKNOWLEDGED = ShareAcknowledgeRequest.AcknowledgeTopic
_ACKNOWLEDGED_PARTITION = _ACKNOWLEDGED.AcknowledgePartition


def require_share_groups() -> None:
    """Skip a test if the real broker has no share groups."""
    if release_of(chosen_version()) < FIRST_RELEASE:
        pytest.skip("share groups need Kafka 4.2")


class Shared(NamedTuple):
    """What a fetch returned for one partition.

    Attributes:
        acquired: First and last offset and delivery count of each range.
        batches: Base offsets of the returned batches.
    """

    error: int = 0
    acknowledge_error: int = 0
    acquired: tuple[tuple[int, int, int], ...] = ()
    batches: tuple[int, ...] = ()


class Fetched(NamedTuple):
    """The result of a fetch: the error of the request, and the partitions by number."""

    error: int
    partitions: dict[int, Shared]


class Beat(NamedTuple):
    """The result of a heartbeat; `assigned` is None without a change."""

    error: int
    epoch: int
    assigned: tuple[int, ...] | None


class RawShareMember:
    """Sends requests; keeps neither epochs nor an assignment."""

    def __init__(self, connection: Connection, group: str, topic: str, topic_id: uuid.UUID) -> None:
        self.connection = connection
        self._group = group
        self.topic = topic
        self.topic_id = topic_id
        self.member_id = str(uuid.uuid4())

    def beat(self, epoch: int, topics: Sequence[str] | None = None, **fields: Any) -> Beat:
        """Send a heartbeat; a joining member subscribes to the topic."""
        if epoch == 0 and topics is None:
            topics = [self.topic]
        request = ShareGroupHeartbeatRequest(
            **{
                "group_id": self._group,
                "member_id": self.member_id,
                "member_epoch": epoch,
                "rack_id": None,
                "subscribed_topic_names": topics,
                **fields,
            }
        )
        response = self.connection.exchange(request, ShareGroupHeartbeatResponse, 1)
        assigned = None
        if response.assignment is not None:
            numbers = [
                n for topic in response.assignment.topic_partitions for n in topic.partitions
            ]
            assigned = tuple(sorted(numbers))
        return Beat(response.error_code, response.member_epoch, assigned)

    def join(self) -> int:
        """Send heartbeats until the member has partitions; returns its epoch."""
        beat = self.beat(0)
        while not beat.error and not beat.assigned:
            self.connection.sleep(0.1)
            beat = self.beat(beat.epoch)
        assert not beat.error, beat
        return beat.epoch

    def fetch(
        self,
        epoch: int,
        partitions: Mapping[int, Acks] | Sequence[int] = (),
        forgotten: Sequence[int] = (),
        version: int = 2,
        **fields: Any,
    ) -> Fetched:
        """Send a ShareFetch and return its result.

        Args:
            epoch: The epoch of the session.
            partitions: The named partitions, perhaps with acknowledgements.
            forgotten: Partitions to forget.
            version: The version of the request.
            **fields: Limits, as fields of the request.
        """
        self.send_fetch(epoch, partitions, forgotten, version, **fields)
        return self.receive_fetch(version)

    def send_fetch(
        self,
        epoch: int,
        partitions: Mapping[int, Acks] | Sequence[int] = (),
        forgotten: Sequence[int] = (),
        version: int = 2,
        **fields: Any,
    ) -> None:
        """Send a ShareFetch."""
        request = ShareFetchRequest(
            **{
                "group_id": self._group,
                "member_id": self.member_id,
                "share_session_epoch": epoch,
                "max_wait_ms": 500,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "share_acquire_mode": 0,
                "is_renew_ack": False,
                "topics": self._named(partitions, _FETCHED, _FETCHED_PARTITION),
                "forgotten_topics_data": [
                    ShareFetchRequest.ForgottenTopic(
                        topic_id=self.topic_id, partitions=list(forgotten)
                    )
                ]
                if forgotten
                else [],
                **fields,
            }
        )
        self.connection.send_request(request, version)

    def receive_fetch(self, version: int = 2) -> Fetched:
        """Wait for the response to a ShareFetch."""
        response = self.receive(ShareFetchResponse, version)
        partitions = {
            p.partition_index: Shared(
                p.error_code,
                p.acknowledge_error_code,
                tuple(
                    (each.first_offset, each.last_offset, each.delivery_count)
                    for each in p.acquired_records or ()
                ),
                tuple(_base_offsets(bytes(p.records or b""))),
            )
            for topic in response.responses
            for p in topic.partitions
        }
        return Fetched(response.error_code, dict(sorted(partitions.items())))

    def receive(self, kind: Any, version: int) -> Any:
        """Wait for a response and return it, decoded as `kind`."""
        return self.connection.receive_response(kind, version)

    def exchange(self, request: Any, kind: Any, version: int) -> Any:
        """Send another request and return its response."""
        return self.connection.exchange(request, kind, version)

    def has_response(self, within_s: float) -> bool:
        """Return whether a response arrives in time."""
        return self.connection.has_response(within_s)

    def acknowledge(
        self, epoch: int, partitions: Mapping[int, Acks], version: int = 2, **fields: Any
    ) -> tuple[int, dict[int, int]]:
        """Send a ShareAcknowledge; returns the error, and those of the partitions."""
        request = ShareAcknowledgeRequest(
            **{
                "group_id": self._group,
                "member_id": self.member_id,
                "share_session_epoch": epoch,
                "is_renew_ack": False,
                "topics": self._named(partitions, _ACKNOWLEDGED, _ACKNOWLEDGED_PARTITION),
                **fields,
            }
        )
        response = self.connection.exchange(request, ShareAcknowledgeResponse, version)
        errors = {
            p.partition_index: p.error_code
            for topic in response.responses
            for p in topic.partitions
        }
        return response.error_code, dict(sorted(errors.items()))

    def _named(
        self, partitions: Mapping[int, Acks] | Sequence[int], topic: Any, partition: Any
    ) -> list[Any]:
        if not partitions:
            return []
        acks = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions, ())
        entries = [
            partition(
                partition_index=number,
                acknowledgement_batches=[
                    partition.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=list(types)
                    )
                    for first, last, types in batches
                ],
            )
            for number, batches in acks.items()
        ]
        return [topic(topic_id=self.topic_id, partitions=entries)]


def _base_offsets(records: bytes) -> list[int]:
    found, at = [], 0
    while at + 12 <= len(records):
        found.append(int.from_bytes(records[at : at + 8], "big"))
        at += 12 + int.from_bytes(records[at + 8 : at + 12], "big")
    return found
