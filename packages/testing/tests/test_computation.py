"""Computations that fail, time out, or meet a failover of the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from packages.testing.tests.coordinated import Coordinated, dealt
from packages.testing.tests.test_client_assignors import about_to_compute, assignor, two_of_a_group
from tandem_kafka_testing.coordinator.records import ConsumerGroupAssignmentComputation

COMPUTE_MS = 5_000


def alive(world: Coordinated, duration_ms: int, *members: str) -> None:
    """Let time pass while members send heartbeats."""
    for _ in range(duration_ms // 500):
        world.simulation.sleep(500)
        for member_id in members:
            assert world.beat(member_id).error_code == 0


# --- somebody else computes ----------------------------------------------------------------------


def test_a_member_that_reports_failure_is_skipped_until_there_is_a_target() -> None:
    world = about_to_compute()
    assert world.install("a", {}, error_code=-1) == 0
    assert world.computes == "b"
    world.compute("b")
    assert world.targets() == dealt(["a", "b", "c"])
    world.join("d", assignor())
    assert world.computes == "b", "a member that has succeeded before is chosen"
    world.group.remove("b")
    assert world.computes == "a", "and what failed once is forgotten"


def test_a_member_that_does_not_prepare_in_time_is_skipped() -> None:
    world = two_of_a_group()
    world.join("c", assignor())
    alive(world, COMPUTE_MS - 500, "a", "b", "c")
    assert world.computes == "a"
    alive(world, 500, "a", "b", "c")
    assert world.computes == "b"


def test_a_member_that_does_not_install_in_time_is_skipped() -> None:
    world = two_of_a_group()
    world.join("c", assignor())
    alive(world, 3_000, "a", "b", "c")
    prepared = world.prepare("a")
    alive(world, COMPUTE_MS - 500, "a", "b", "c")
    assert world.computes == "a", "the timeout restarts with prepare"
    alive(world, 500, "a", "b", "c")
    assert world.computes == "b"
    late = world.install("a", dealt(["a", "b", "c"]), prepared.group_epoch)
    assert late != 0
    assert world.group.assignment_epoch < prepared.group_epoch


def test_a_changing_group_does_not_extend_the_computation_timeout() -> None:
    world = two_of_a_group()
    world.join("c", assignor())
    for number in range(COMPUTE_MS // 500):
        world.beat("b", client_assignors=[assignor(metadata_bytes=b"%d" % number)])
        alive(world, 500, "a", "b", "c")
    assert world.computes == "b"


def test_after_all_members_failed_the_group_pauses_and_begins_again() -> None:
    world = two_of_a_group()
    epoch = world.group.assignment_epoch
    world.join("c", assignor())
    for member_id in ("a", "b", "c"):
        assert world.computes == member_id
        assert world.prepare(member_id).error_code == 0
        assert world.install(member_id, {}, error_code=-1) == 0
    assert world.computes == ""
    assert world.describe().computing_member_id is None
    assert not any(world.beat(name).should_compute_assignment for name in "abc")
    alive(world, COMPUTE_MS, "a", "b", "c")
    assert (world.computes, world.group.assignment_epoch) == ("a", epoch)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_another_member_computes_when_the_computing_one_leaves(how: str, prepared: bool) -> None:
    world = two_of_a_group()
    world.join("c", assignor())
    if prepared:
        assert world.prepare("a").error_code == 0
    if how == "leaves":
        world.beat("a", -1)
    else:
        alive(world, 6_500, "b", "c")
    assert "a" not in world.group.members
    assert world.computes == "b"
    world.compute("b")
    assert world.targets() == dealt(["b", "c"])


def test_an_absent_static_member_does_not_compute_and_keeps_its_partitions() -> None:
    world = Coordinated()
    world.join("a", assignor(), instance_id="one")
    world.join("b", assignor())
    world.compute("a")
    world.join("c", assignor())
    assert world.prepare("a").error_code == 0
    world.beat("a", -2, instance_id="one")
    assert world.computes == "b"
    prepared = world.prepare("b")
    assert {each.member_id for each in prepared.members} == {"a", "b", "c"}
    world.join("a2", assignor(), instance_id="one")
    late = world.install("b", dealt(["a", "b", "c"]), prepared.group_epoch)
    assert late != 0, "`a` is no longer a member"
    world.compute("b")
    assert world.targets() == dealt(["a2", "b", "c"])


# --- from one kind to the other ------------------------------------------------------------------


def test_a_rolling_upgrade_from_the_coordinator_to_the_members_and_back() -> None:
    world = Coordinated()
    world.join("a")
    world.join("b")
    assert (world.group.assignor, world.computes) == ("uniform", None)
    world.beat("a", -1)
    world.join("a2", assignor())
    assert (world.group.assignor, world.computes) == ("uniform", None), "one cannot yet"
    world.beat("b", -1)
    assert world.computes == "a2"
    world.join("b2", assignor())
    world.compute("a2")
    assert (world.group.assignor, world.targets()) == ("deal", dealt(["a2", "b2"]))
    world.join("c", assignor())
    assert world.prepare("a2").error_code == 0
    world.join("d")
    assert (world.group.assignor, world.computes) == ("uniform", None), "one cannot any more"
    assert world.group.epoch == world.group.assignment_epoch
    late = world.install("a2", dealt(["a2", "b2", "c"]))
    assert late != 0


def test_with_incompatible_versions_the_coordinator_assigns() -> None:
    world = two_of_a_group()
    world.join("c", assignor(low=1, own=1, high=1))
    assert (world.group.assignor, world.computes) == ("uniform", None)
    world.beat("c", -1)
    assert world.computes == "a"


def test_a_member_that_supports_the_newest_version_computes() -> None:
    world = two_of_a_group()
    world.join("c", assignor(own=1, high=1))
    assert world.computes == "c"


# --- failover ------------------------------------------------------------------------------------


def nothing(_: Coordinated) -> None:
    """Do nothing: the member was just chosen."""


def prepared(world: Coordinated) -> None:
    assert world.prepare("a").error_code == 0


def told_and_changed(world: Coordinated) -> None:
    prepared(world)
    world.join("d", assignor(own=1, high=2))


def failed(world: Coordinated) -> None:
    prepared(world)
    assert world.install("a", {}, error_code=-1) == 0


def all_failed(world: Coordinated) -> None:
    for member_id in ("a", "b", "c"):
        assert world.prepare(member_id).error_code == 0
        assert world.install(member_id, {}, error_code=-1) == 0


def installed(world: Coordinated) -> None:
    world.compute("a")


STEPS = [nothing, prepared, told_and_changed, failed, all_failed, installed]


def known(world: Coordinated) -> Any:
    group = world.group
    members = {m.member_id: (m.epoch, m.assignors, m.assigned) for m in group.members.values()}
    return (
        (group.epoch, group.assignment_epoch, group.assignor, group.computations.current),
        (members, group.target, group.wanted, group.announced),
    )


@pytest.mark.design("001", "Client-side assignors, the coordinator fails")
@pytest.mark.parametrize("step", STEPS)
def test_a_new_coordinator_continues_the_computation(
    step: Callable[[Coordinated], None],
) -> None:
    world = two_of_a_group()
    world.join("c", assignor(metadata_bytes=b"of c", reason=1))
    step(world)
    before = known(world)
    world.fail_over()
    assert known(world) == before
    world.fail_over()
    assert known(world) == before


def test_the_next_coordinator_accepts_an_assignment_prepared_by_the_previous_one() -> None:
    world = about_to_compute()
    world.fail_over()
    assert world.install("a", dealt(["a", "b", "c"])) == 0
    assert world.targets() == dealt(["a", "b", "c"])
    assert world.group._context.log.group(ConsumerGroupAssignmentComputation) is None


def test_the_computation_timeout_applies_after_a_failover() -> None:
    world = about_to_compute()
    alive(world, 3_000, "a", "b", "c")
    world.fail_over()
    alive(world, COMPUTE_MS - 500, "a", "b", "c")
    assert world.computes == "a", "the timeout restarts"
    alive(world, 500, "a", "b", "c")
    assert world.computes == "b"


@pytest.mark.parametrize("asked", [False, True])
def test_the_next_coordinator_knows_a_returned_static_member(asked: bool) -> None:
    world = Coordinated()
    world.join("a", assignor(), instance_id="one")
    world.join("b", assignor())
    world.compute("a")
    if asked:
        world.join("c", assignor())
        assert world.prepare("a").error_code == 0
    world.beat("a", -2, instance_id="one")
    world.join("a2", assignor(), instance_id="one")
    before = known(world)
    world.fail_over()
    assert known(world) == before
    epoch = world.group.epoch
    world.beat("b")
    assert world.group.epoch == epoch, "nothing is new to it"
