"""What has failed for a subscription is not in `health()` once the application has ended it."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic
from tests.simulation.changing import changing
from tests.simulation.sharing import counted
from tests.simulation.test_mixed_answers import FIRST, produce, read, set_codes

NO_SUBSCRIPTION = ("there is no subscription: call subscribe() or assign()",)


def refuse(message: Any, code: int) -> None:
    """Give the response, or each of its entries, an error."""
    for entries in ("coordinators", "groups"):
        if getattr(message, entries, None):
            set_codes(entries, code)(message)
            return
    message.error_code = code


@pytest.mark.parametrize("code", [-1, 30, 82, 9_999])
@pytest.mark.parametrize(
    ("protocol", "response"),
    [
        ("classic", JoinGroupResponse),
        ("classic", SyncGroupResponse),
        ("classic", HeartbeatResponse),
        ("classic", OffsetFetchResponse),
        ("classic", FindCoordinatorResponse),
        ("consumer", ConsumerGroupHeartbeatResponse),
        ("consumer", FindCoordinatorResponse),
    ],
)
def test_failures_end_with_the_subscription(protocol: str, response: Any, code: int) -> None:
    """They had been named for a minute, also while assigned partitions were read."""
    with Simulation("unsubscribed", brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer(
            "orders", group_id="g", group_protocol=protocol, auto_offset_reset="earliest"
        )
        with changing(simulation, response, lambda _: lambda message: refuse(message, code)):
            read(simulation, consumer, 20)
            assert not consumer.health().ready
            consumer.unsubscribe()
            read(simulation, consumer, 1)
            before = counted(simulation, FindCoordinatorRequest)
            for _ in range(20):
                health = consumer.health()
                assert health.alive
                assert health.not_ready == NO_SUBSCRIPTION
                assert not health.troubles
                read(simulation, consumer, 1)
            assert counted(simulation, FindCoordinatorRequest) == before
            if response in (FindCoordinatorResponse, OffsetFetchResponse):
                return  # a position needs it
            consumer.assign([FIRST])
            assert read(simulation, consumer, 2)
            assert consumer.health().ready


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_without_a_coordinator_are_a_trouble_of_assigned_partitions(protocol: str) -> None:
    """They are read, and had not been ready."""
    with Simulation("assigned", brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer(
            group_id="g", group_protocol=protocol, auto_commit_interval_ms=500
        )
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        refused = set_codes("coordinators", 30)
        with changing(simulation, FindCoordinatorResponse, lambda _: refused):
            assert read(simulation, consumer, 20)
            health = consumer.health()
            assert health.ready, health.not_ready
            assert any("FindCoordinator has failed for" in each for each in health.troubles)
