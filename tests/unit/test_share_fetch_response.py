"""Record batches in the response to a share fetch are a view of it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tandem_kafka.wire.framing import decode_message, encode_message
from tandem_kafka.wire.messages import ShareFetchResponse

VERSION = 1
TOPIC: Any = ShareFetchResponse.ShareFetchableTopicResponse
PARTITION: Any = TOPIC.PartitionData


def encoded(*records: bytes | None) -> bytes:
    partitions = [
        PARTITION(
            partition_index=number,
            records=each,
            current_leader=PARTITION.LeaderIdAndEpoch(leader_id=1, leader_epoch=2),
            acquired_records=[
                PARTITION.AcquiredRecords(first_offset=number, last_offset=9, delivery_count=3)
            ],
        )
        for number, each in enumerate(records)
    ]
    topic = TOPIC(topic_id=uuid.uuid4(), partitions=partitions)
    return encode_message(ShareFetchResponse(responses=[topic], node_endpoints=[]), VERSION)


def test_records_are_a_view_and_the_fields_behind_them_are_read() -> None:
    body = encoded(b"x" * 300, None, b"", b"y")
    [topic] = decode_message(ShareFetchResponse, VERSION, memoryview(body)).responses
    found = [each.records for each in topic.partitions]
    assert found == [b"x" * 300, None, b"", b"y"]
    assert all(each.obj is body for each in found if each is not None)
    ranges = [each.acquired_records for each in topic.partitions]
    assert [(one.first_offset, one.last_offset) for [one] in ranges] == [(n, 9) for n in range(4)]


def test_a_response_that_is_cut_anywhere_is_rejected() -> None:
    body = encoded(b"x" * 20, None)
    for end in range(len(body)):
        with pytest.raises(Exception, match=r"."):
            decode_message(ShareFetchResponse, VERSION, memoryview(body)[:end])
