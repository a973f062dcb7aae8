"""Racks of members: sent to the computing member, and kept in a failover."""

from __future__ import annotations

import pytest

from packages.testing.tests.coordinated import Coordinated
from packages.testing.tests.driven import Driven, subscription
from packages.testing.tests.test_client_assignors import assignor


def racks(world: Coordinated) -> dict[str, str | None]:
    return {each.member_id: each.rack_id for each in world.describe().members}


@pytest.mark.design("001", "RackId of a member")
def test_racks_are_described_and_sent_to_the_computing_member() -> None:
    world = Coordinated()
    world.join("a", assignor(), rack_id="east")
    world.compute("a")
    world.join("b", assignor(), rack_id="west")
    world.join("c", assignor())
    assert racks(world) == {"a": "east", "b": "west", "c": None}
    prepared = world.prepare("a").members
    assert {each.member_id: each.rack_id for each in prepared} == {
        "a": "east",
        "b": "west",
        "c": None,
    }


def test_a_heartbeat_without_a_rack_keeps_the_rack() -> None:
    world = Coordinated()
    world.join("a", rack_id="east")
    world.beat("a")
    world.join("a")
    assert racks(world) == {"a": "east"}
    world.join("a", rack_id="west")
    assert racks(world) == {"a": "west"}


@pytest.mark.design("001", "RackId of a member")
def test_racks_survive_a_failover() -> None:
    world = Coordinated()
    world.join("a", rack_id="east")
    world.join("b")
    world.fail_over()
    assert racks(world) == {"a": "east", "b": None}


def test_a_replaced_static_member_keeps_its_rack() -> None:
    world = Coordinated()
    world.join("a", rack_id="east", instance_id="one")
    world.beat("a", -2, instance_id="one")
    world.join("b", instance_id="one")
    assert racks(world) == {"b": "east"}


def test_classic_members_send_their_rack_in_the_subscription() -> None:
    driven = Driven()
    first = driven.results[driven.join("", subscription(rack="east"))].member_id
    driven.sync(first, 1)
    driven.beat("m", 0, rack="west")
    members = driven.coordinator.consumer.members
    assert {each: members[each].rack for each in members} == {first: "east", "m": "west"}
    second = driven.results[driven.join("", subscription(rack="north"))].member_id
    driven.join(first, subscription(rack="south"))
    assert (members[second].rack, members[first].rack) == ("north", "south")
    driven.join(first, subscription())
    driven.fail_over()
    assert driven.coordinator.consumer.members[first].rack == "south"
