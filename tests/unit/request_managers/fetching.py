"""Decodes fetch requests and creates fetch responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tandem_kafka.network.request import UnsentRequest
from tandem_kafka.request_managers.base import PollResult
from tandem_kafka.state.fetch_buffer import CompletedFetch
from tandem_kafka.types import Node, TopicPartition
from tandem_kafka.wire.messages import FetchResponse
from tests.unit.records.making import Rec, batch
from tests.unit.request_managers.world import TOPIC_ID, World, code

_TOPIC = FetchResponse.FetchableTopicResponse
_PARTITION = _TOPIC.PartitionData


@dataclass
class Found:
    """One partition of a response."""

    records: bytes = b""
    error: type[Exception] | None = None
    high_watermark: int = 100
    replica: int = -1
    leader: tuple[int, int] | None = None


def records(base_offset: int, count: int = 2, *, size: int = 5) -> bytes:
    return batch([Rec(value=b"v" * size) for _ in range(count)], base_offset, epoch=3)


def fetch_response(
    found: dict[TopicPartition, Found],
    *,
    session_id: int = 77,
    error: type[Exception] | None = None,
    nodes: tuple[Node, ...] = (),
    topic_id: UUID = TOPIC_ID,
) -> Any:
    """Return a fetch response for topic `orders`."""
    entries = [_entry(tp, each) for tp, each in found.items()]
    topics = [_TOPIC(topic_id=topic_id, partitions=entries)] if entries else []
    response = FetchResponse(
        throttle_time_ms=0,
        error_code=0 if error is None else code(error),
        session_id=session_id,
        responses=topics,
    )
    if nodes:
        endpoint = FetchResponse.NodeEndpoint
        response.node_endpoints = [
            endpoint(node_id=n.node_id, host=n.host, port=n.port, rack=None) for n in nodes
        ]
        response.tags = {"node_endpoints"}
    return response


def _entry(tp: TopicPartition, found: Found) -> Any:
    entry = _PARTITION(
        partition_index=tp.partition,
        error_code=0 if found.error is None else code(found.error),
        high_watermark=found.high_watermark,
        last_stable_offset=found.high_watermark,
        log_start_offset=0,
        aborted_transactions=None,
        preferred_read_replica=found.replica,
        records=found.records,
    )
    if found.leader is not None:
        leader_id, epoch = found.leader
        entry.current_leader = _PARTITION.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
        entry.tags = {"current_leader"}
    return entry


def send(world: World, *, after_ms: int = 0) -> list[UnsentRequest]:
    return list(world.poll(world.managers.fetch, after_ms=after_ms).unsent)


def iterate(world: World, *, after_ms: int = 0) -> PollResult:
    return world.poll(world.managers.fetch, after_ms=after_ms)


def requested_offsets(unsent: UnsentRequest) -> dict[int, int]:
    """The offsets by partition number in a request."""
    return {
        p.partition: p.fetch_offset for topic in unsent.message.topics for p in topic.partitions
    }


def forgotten(unsent: UnsentRequest) -> list[int]:
    return [p for topic in unsent.message.forgotten_topics_data for p in topic.partitions]


def chunks(world: World) -> list[CompletedFetch]:
    """Take all chunks from the buffer; they are counted until released."""
    chunks = []
    while (chunk := world.buffer.queue.take()) is not None:
        chunks.append(chunk)
    return chunks


def consume(world: World) -> None:
    """Return all records, as the collector does."""
    from tandem_kafka.state.partition import Consumed, Position

    for chunk in chunks(world):
        if chunk.reader is not None:
            while not chunk.reader.exhausted:
                chunk.reader.take(1_000)
            position = Position(chunk.reader.next_offset, chunk.reader.leader_epoch)
            chunk.partition.consumed = Consumed(chunk.base, position)
        world.buffer.count(chunk, world.buffer.counts(chunk, 0))
