"""The simulated coordinator sends assignor metadata of the computing member to all members."""

from __future__ import annotations

from typing import Any

import pytest

from packages.testing.tests.coordinated import Coordinated
from packages.testing.tests.test_client_assignors import assignor, two_of_a_group
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatResponse


def install(world: Coordinated, who: str, numbers: dict[str, list[int]], said: bytes) -> None:
    prepared = world.prepare(who)
    entries = [world.entry(each, given, metadata=said) for each, given in numbers.items()]
    assert world.install(who, {}, prepared.group_epoch, members=entries) == 0


def assignor_metadata(response: Any) -> tuple[str | None, int, bytes]:
    assignment = response.assignment
    return assignment.assignor_name, assignment.metadata_version, assignment.metadata_bytes


def two(said: bytes = b"first") -> Coordinated:
    """`a` and `b` with two partitions each, in use."""
    world = two_of_a_group()
    world.beat("a", topic_partitions=[])
    world.beat("b")
    world.beat("b", client_assignors=[assignor(metadata_bytes=said)])
    install(world, "a", {"a": [0, 2], "b": [1, 3]}, said)
    return world


@pytest.mark.design("001", "ConsumerGroupHeartbeatResponse")
def test_each_member_gets_assignor_metadata_with_its_assignment() -> None:
    world = two()
    assert (
        assignor_metadata(world.beat("a"))
        == assignor_metadata(world.beat("b"))
        == ("deal", 1, b"first")
    )
    assert world.beat("a").assignment is None, "there is nothing new"


def test_changed_assignor_metadata_is_sent_with_unchanged_partitions() -> None:
    world = two()
    for each in ("a", "b"):
        world.beat(each)
    world.beat("b", client_assignors=[assignor(metadata_bytes=b"b changed")])
    install(world, "a", {"a": [0, 2], "b": [1, 3]}, b"second")
    response = world.beat("a")
    assert assignor_metadata(response) == ("deal", 1, b"second")
    assert [each.partitions for each in response.assignment.topic_partitions] == [[0, 2]]


def test_a_revoking_member_gets_assignor_metadata_after_its_revocation() -> None:
    world = two()
    for each in ("a", "b"):
        world.beat(each)
    world.beat("b", client_assignors=[assignor(metadata_bytes=b"b changed")])
    install(world, "a", {"a": [0], "b": [1, 2, 3]}, b"second")
    giving_back = world.beat("a")
    assert assignor_metadata(giving_back) == ("deal", 1, b"first"), "of the epoch that it is at"
    given_back = world.beat("a", topic_partitions=world.entry("a", [0]).partitions)
    assert assignor_metadata(given_back) == ("deal", 1, b"second")
    assert assignor_metadata(world.beat("b")) == ("deal", 1, b"second")


def test_the_next_coordinator_sends_assignor_metadata() -> None:
    world = two()
    world.fail_over()
    assert assignor_metadata(world.beat("a")) == ("deal", 1, b"first"), "it is of the target"
    world.fail_over()
    again = world.beat("a", topic_partitions=[], rebalance_timeout_ms=60_000)
    assert assignor_metadata(again) == ("deal", 1, b"first"), "and of what the member has"


def test_a_replaced_static_member_gets_the_same_assignor_metadata() -> None:
    world = Coordinated()
    world.join("a", assignor(), instance_id="one")
    install(world, "a", {"a": [0]}, b"first")
    world.beat("a", instance_id="one")
    world.beat("a", -2, instance_id="one")
    assert assignor_metadata(world.join("b", assignor(), instance_id="one")) == (
        "deal",
        1,
        b"first",
    )


def test_a_member_without_an_entry_gets_empty_assignor_metadata() -> None:
    world = two()
    world.beat("b", client_assignors=[assignor(metadata_bytes=b"b changed")])
    install(world, "a", {"a": [0]}, b"second")
    world.beat("b")
    nothing = world.beat("b", topic_partitions=[])
    assert assignor_metadata(nothing) == ("deal", 0, b"")
    assert not nothing.assignment.topic_partitions


def test_server_side_assignments_have_no_assignor_metadata() -> None:
    world = two()
    world.beat("a")
    joined = world.join("c")
    assert assignor_metadata(joined) == (None, 0, b"")
    response = world.beat("a", topic_partitions=[])
    assert assignor_metadata(response) == (None, 0, b"")


def test_assignor_metadata_can_be_encoded() -> None:
    response = two().beat("a")
    for version in (0, 1):
        body = response.encode(version=version)
        read = ConsumerGroupHeartbeatResponse.decode(body, version=version)
        assert assignor_metadata(read) == ("deal", 1, b"first")


@pytest.mark.design("001", "ConsumerGroupHeartbeatResponse")
def test_an_assignor_error_is_sent_to_its_member() -> None:
    world = two()
    for each in ("a", "b"):
        world.beat(each)
    world.beat("b", client_assignors=[assignor(metadata_bytes=b"b changed")])
    prepared = world.prepare("a")
    entries = [world.entry("a", [0, 2], error=7), world.entry("b", [1, 3])]
    assert world.install("a", {}, prepared.group_epoch, members=entries) == 0
    assert [world.beat(each).assignment.error for each in ("a", "b")] == [7, 0]
