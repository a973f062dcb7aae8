"""ConsumerGroupDescribe of groups that are not KIP-848 groups."""

from __future__ import annotations

import pytest
from kafka import errors

from packages.testing.tests.coordinated import GROUP, Coordinated
from packages.testing.tests.driven import subscription
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator.requests import CommitOffsets, JoinGroup


def error_and_state(world: Coordinated) -> tuple[int, str]:
    group = world.describe()
    return group.error_code, group.group_state


def join_classic(world: Coordinated) -> None:
    request = JoinGroup(
        member_id="",
        new_id="c",
        protocols={"range": subscription()},
        session_ms=10_000,
        rebalance_ms=60_000,
    )
    assert world.cluster.coordination.execute(GROUP, request).error is None


NOT_FOUND = errors.GroupIdNotFoundError.errno, ""


@pytest.mark.design("001", "Describe")
def test_a_group_with_offsets_only_is_not_described() -> None:
    world = Coordinated()
    offsets = {TopicPartition("orders", 0): (3, -1, "")}
    world.cluster.coordination.execute(
        GROUP, CommitOffsets(member_id="", generation=-1, offsets=offsets)
    )
    assert error_and_state(world) == NOT_FOUND


@pytest.mark.design("001", "Describe")
def test_an_empty_group_is_described_by_the_next_coordinator_until_it_is_classic() -> None:
    world = Coordinated()
    world.join("a")
    world.beat("a", -1)
    world.fail_over()
    assert error_and_state(world) == (0, "Empty")
    join_classic(world)
    assert error_and_state(world) == NOT_FOUND
