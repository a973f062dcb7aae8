"""Brokers that simulate a Kafka release: offered versions and rejections."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from packages.testing.tests.bare_client import Client
from tandem_kafka.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    HeartbeatRequest,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.releases import RELEASES

NAMES = sorted(RELEASES)
UNSUPPORTED_VERSION = 35


def versions_request() -> Any:
    return ApiVersionsRequest(client_software_name="t", client_software_version="1")


def offered(frame: bytes | None, version: int) -> tuple[int, dict[int, tuple[int, int]]]:
    assert frame is not None
    asked = versions_request()
    asked.with_header(correlation_id=7, client_id="c")
    asked.encode(version=version, header=True)
    answer = ApiVersionsResponse.decode(frame[4:], version=version)
    keys = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    return answer.error_code, keys


@pytest.mark.parametrize("kafka", NAMES)
def test_a_broker_offers_what_its_release_does(kafka: str) -> None:
    with Simulation(kafka=kafka) as simulation:
        code, versions = offered(Client(simulation).say(versions_request(), 1), 1)
        assert code == 0
        assert versions == dict(RELEASES[kafka].versions)


def test_what_changed_between_the_releases() -> None:
    fetch = {name: RELEASES[name].versions[FetchRequest.API_KEY] for name in NAMES}
    assert fetch == {"0.11": (0, 5), "2.8": (0, 12), "3.9": (0, 17), "4.3": (4, 18)}
    heartbeats = {n for n in NAMES if ConsumerGroupHeartbeatRequest.API_KEY in RELEASES[n].versions}
    assert heartbeats == {"3.9", "4.3"}


@pytest.mark.parametrize("kafka", NAMES)
def test_an_unsupported_api_versions_request_gets_a_version_0_response(kafka: str) -> None:
    """Since 2.4 with the versions of this request; before, without any."""
    with Simulation(kafka=kafka) as simulation:
        client = Client(simulation)
        _, highest = RELEASES[kafka].versions[ApiVersionsRequest.API_KEY]
        code, versions = offered(client.say(versions_request(), highest + 1), 0)
        assert code == UNSUPPORTED_VERSION
        assert versions == ({} if kafka == "0.11" else {18: (0, highest)})
        assert offered(client.say(versions_request(), 0), 0)[0] == 0, "and may be asked again"


@pytest.mark.parametrize("kafka", NAMES)
def test_other_unsupported_versions_end_the_connection(kafka: str) -> None:
    with Simulation(kafka=kafka) as simulation:
        _, highest = RELEASES[kafka].versions[HeartbeatRequest.API_KEY]
        message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert Client(simulation).say(message, highest) is not None
        assert Client(simulation).say(message, highest + 1) is None


def test_an_unknown_request_ends_the_connection() -> None:
    with Simulation() as simulation:
        assert Client(simulation).send(struct.pack(">hhih", 999, 0, 1, -1)) is None


def test_a_version_that_is_not_simulated_fails_the_test() -> None:
    with Simulation(kafka="0.11") as simulation, pytest.raises(NotImplementedError) as raised:
        Client(simulation).say(FetchRequest(topics=[]), 3)
    assert str(raised.value) == "FetchRequest v3 is not simulated"


def test_3_9_announces_kip_848_and_rejects_it() -> None:
    with Simulation(kafka="3.9") as simulation:
        client = Client(simulation)
        heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
        frame = client.say(heartbeat, 0)
        assert frame is not None
        # After the correlation id, without tags: the throttle time, the error.
        assert frame[9:11] == struct.pack(">h", UNSUPPORTED_VERSION)
        described = client.say(ConsumerGroupDescribeRequest(group_ids=["g"]), 0)
        assert described is not None
        assert described[10:12] == struct.pack(">h", UNSUPPORTED_VERSION)


def test_an_unknown_release_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"'1\.0' is not simulated; there are '0\.11', '2\.8'"):
        Simulation(kafka="1.0")
