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
def test_describing_an_unknown_group_reports_not_found() -> None:
    world = Coordinated()
    assert error_and_state(world) == NOT_FOUND
    assert world.beat("nobody", 3).error_code == errors.GroupIdNotFoundError.errno
    assert error_and_state(world) == NOT_FOUND, "asking for it does not bring it into being"


@pytest.mark.design("001", "Describe")
def test_describing_a_classic_group_reports_not_found() -> None:
    world = Coordinated()
    join_classic(world)
    assert error_and_state(world) == NOT_FOUND


@pytest.mark.design("001", "Describe")
def test_describing_a_group_with_offsets_only_reports_not_found() -> None:
    world = Coordinated()
    offsets = {TopicPartition("orders", 0): (3, -1, "")}
    world.cluster.coordination.execute(
        GROUP, CommitOffsets(member_id="", generation=-1, offsets=offsets)
    )
    assert error_and_state(world) == NOT_FOUND


@pytest.mark.design("001", "Describe")
def test_a_described_group_without_members_is_empty_until_it_is_deleted() -> None:
    world = Coordinated()
    world.join("a")
    assert error_and_state(world)[0] == 0
    world.beat("a", -1)
    assert error_and_state(world) == (0, "Empty")
    world.fail_over()
    assert error_and_state(world) == (0, "Empty")
    join_classic(world)
    assert error_and_state(world) == NOT_FOUND
