"""A cluster whose coordinators support only the classic protocol."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tandem_kafka import SubscriptionPattern
from tandem_kafka.errors import UnsupportedVersionError
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.polling import Consume, assigned, partitions_of

pytestmark = pytest.mark.full("starts brokers of its own")


@pytest.fixture(scope="module")
def classic() -> Iterator[RealKafka]:
    with RealKafka(properties={"group.coordinator.rebalance.protocols": "classic"}) as cluster:
        yield cluster


@pytest.fixture
def options(classic: RealKafka) -> dict[str, Any]:
    return {
        "bootstrap_servers": classic.bootstrap(),
        "group_id": f"group-{uuid.uuid4().hex[:8]}",
        "group_protocol": "auto",
    }


@pytest.fixture(scope="module")
def topic(classic: RealKafka) -> str:
    return classic.admin.create_topic("orders", 2)


@pytest.mark.behaviour(92)
def test_the_error_without_kip_848_has_the_next_step_and_auto_takes_it(
    consume: Consume, topic: str, options: dict[str, Any]
) -> None:
    rejected = consume(topic, **{**options, "group_protocol": "consumer"})
    with pytest.raises(UnsupportedVersionError, match="group_protocol='classic'"):
        rejected.poll(60_000)
    assigned(consume(topic, **options), partitions_of(topic, 2))


@pytest.mark.behaviour(53)
def test_a_subscription_pattern_is_rejected_without_kip_848(
    consume: Consume, topic: str, options: dict[str, Any]
) -> None:
    consumer = consume(**options)
    consumer.subscribe(pattern=SubscriptionPattern("ord.*"))
    for _ in range(2):
        with pytest.raises(UnsupportedVersionError, match="SubscriptionPattern needs"):
            consumer.poll(60_000)
    consumer.unsubscribe()
    consumer.subscribe(pattern="ord.*")
    assigned(consumer, partitions_of(topic, 2))
    consumer.unsubscribe()
    with pytest.raises(UnsupportedVersionError, match="SubscriptionPattern needs"):
        consumer.subscribe(pattern=SubscriptionPattern("ord.*"))
