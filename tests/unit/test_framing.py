"""Headers, compared byte for byte with those of kafka-python."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from tandem_kafka.wire.framing import (
    decode_message,
    encode_message,
    encode_nullable,
    frame_request,
    response_class,
)
from tandem_kafka.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    ShareFetchResponse,
)


@pytest.mark.parametrize("client_id", [None, "", "me", "Müller" * 300])
@pytest.mark.parametrize(
    "message",
    [
        ApiVersionsRequest(client_software_name="n", client_software_version="v"),
        HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id=None),
        MetadataRequest(topics=None, allow_auto_topic_creation=True),
    ],
    ids=lambda message: message.name,
)
def test_a_request_has_the_bytes_of_kafka_python(message: Any, client_id: str | None) -> None:
    for version in range(message.max_version + 1):
        message.with_header(correlation_id=2**31 - 1, client_id=client_id)
        expected = bytes(message.encode(version=version, header=True, framed=True))
        assert frame_request(message, version, 2**31 - 1, encode_nullable(client_id)) == expected


def test_a_response_is_decoded_by_the_class_of_its_request_and_version() -> None:
    body = bytes(HeartbeatResponse(throttle_time_ms=7, error_code=27).encode(version=4))
    response = response_class(HeartbeatRequest.API_KEY, 4).decode(body)
    assert (response.throttle_time_ms, response.error_code, response.version) == (7, 27, 4)
    assert response_class(ApiVersionsRequest.API_KEY, 3)(error_code=35).name == (
        ApiVersionsResponse.name
    )


_ASSIGNED = ConsumerGroupHeartbeatRequest.TopicPartitions


@pytest.mark.parametrize(
    "message",
    [
        ApiVersionsResponse(
            error_code=0,
            api_keys=[ApiVersionsResponse.ApiVersion(api_key=1, min_version=4, max_version=18)]
            * 90,
            throttle_time_ms=3,
        ),
        ConsumerGroupHeartbeatRequest(
            group_id="g" * 2_000,  # longer than the initial buffer
            member_id="m",
            member_epoch=7,
            subscribed_topic_names=["a", "b"],
            topic_partitions=[_ASSIGNED(topic_id=UUID(int=5), partitions=[0, 1])],
        ),
        HeartbeatResponse(throttle_time_ms=7, error_code=27),
        MetadataRequest(topics=[], allow_auto_topic_creation=False),
    ],
    ids=lambda message: message.name,
)
def test_bodies_equal_those_of_kafka_python_in_both_directions(message: Any) -> None:
    for version in range(message.max_version + 1):
        body = encode_message(message, version)
        assert body == bytes(message.encode(version=version))
        ours = decode_message(type(message), version, memoryview(body))
        assert ours == type(message).decode(body, version=version)
        assert type(ours) is type(message)


def test_all_topics_are_requested_in_each_version() -> None:
    for version in range(MetadataRequest.max_version + 1):
        fresh = MetadataRequest(topics=None, allow_auto_topic_creation=True)
        again = MetadataRequest(topics=None, allow_auto_topic_creation=True)
        assert encode_message(fresh, version) == bytes(again.encode(version=version))


def test_an_unknown_version_is_rejected() -> None:
    with pytest.raises(ValueError, match="99"):
        encode_message(HeartbeatResponse(throttle_time_ms=0, error_code=0), 99)
    with pytest.raises(ValueError, match="99"):
        decode_message(HeartbeatResponse, 99, memoryview(b""))


def _fetched(records: bytes | None) -> Any:
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    leader = topic.PartitionData.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    entry = topic.PartitionData(
        partition_index=1, current_leader=leader, records=records, acquired_records=[]
    )
    return ShareFetchResponse(responses=[topic(topic_id=UUID(int=7), partitions=[entry] * 2)])


def test_records_of_a_share_group_are_not_copied() -> None:
    frame = bytes(_fetched(b"some batches").encode(version=2))
    decoded = decode_message(ShareFetchResponse, 2, memoryview(frame))
    for each in decoded.responses[0].partitions:
        assert each.records == b"some batches"
        assert each.records.obj is frame
    empty = memoryview(bytes(_fetched(None).encode(version=2)))
    found = decode_message(ShareFetchResponse, 2, empty).responses[0].partitions
    assert [each.records for each in found] == [None, None]
    for end in range(len(frame)):
        with pytest.raises((ValueError, IndexError, struct.error)):
            decode_message(ShareFetchResponse, 2, memoryview(frame[:end]))
