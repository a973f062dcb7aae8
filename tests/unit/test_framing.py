"""Headers written by hand, byte for byte beside kafka-python's."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka.wire.framing import framed, nullable, response_class
from tandem_kafka.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
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
        assert framed(message, version, 2**31 - 1, nullable(client_id)) == expected


def test_an_answer_is_decoded_by_the_class_of_its_request_and_version() -> None:
    body = bytes(HeartbeatResponse(throttle_time_ms=7, error_code=27).encode(version=4))
    answer = response_class(HeartbeatRequest.API_KEY, 4).decode(body)
    assert (answer.throttle_time_ms, answer.error_code, answer.version) == (7, 27, 4)
    assert response_class(ApiVersionsRequest.API_KEY, 3)(error_code=35).name == (
        ApiVersionsResponse.name
    )
