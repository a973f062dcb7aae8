"""Client-side assignment at a simulated coordinator: the choice of the member, valid results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kafka import errors

from packages.testing.tests.coordinated import Coordinated, dealt
from tandem_kafka.errors import InvalidAssignmentError
from tandem_kafka.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from tandem_kafka_testing.coordinator.client_assignors import (
    ClientAssignor,
    capable_members,
    common_assignor,
)

_ENTRY = ConsumerGroupHeartbeatRequest.ClientAssignor


def assignor(name: str = "deal", low: int = 0, own: int = 0, high: int = 0, **more: Any) -> Any:
    fields = {"reason": 0, "metadata_bytes": b"", **more}
    return _ENTRY(
        name=name, minimum_version=low, metadata_version=own, maximum_version=high, **fields
    )


def code(error: Any) -> int:
    return int(error.errno)


def two_of_a_group() -> Coordinated:
    """`a` and `b`, with a target computed by `a`."""
    world = Coordinated()
    world.join("a", assignor())
    world.compute("a")
    world.join("b", assignor())
    world.compute("a")
    assert (world.computes, world.targets()) == (None, dealt(["a", "b"]))
    return world


def about_to_compute() -> Coordinated:
    """The same with `c`: `a` must compute again, and knows it."""
    world = two_of_a_group()
    world.join("c", assignor())
    assert world.prepare("a").error_code == 0
    return world


# --- which assignor, which member ----------------------------------------------------------------

OLD, NEW, NEWEST = (0, 0, 0), (0, 1, 1), (2, 2, 2)


def brought(*versions: tuple[int, int, int], name: str = "deal") -> Any:
    return {
        str(at): (ClientAssignor(name, low, high, own),)
        for at, (low, own, high) in enumerate(versions)
    }


@pytest.mark.parametrize(
    ("versions", "who"),
    [
        ([OLD], ["0"]),
        ([OLD, OLD], ["0", "1"]),
        ([OLD, NEW], ["1"]),
        ([NEW, NEW, OLD], ["0", "1"]),
        ([OLD, NEWEST], []),
        ([NEW, NEWEST], []),
        ([(0, 0, 1), (0, 1, 1)], ["0", "1"]),
    ],
)
def test_a_capable_member_supports_the_versions_of_all_members(
    versions: list[tuple[int, int, int]], who: list[str]
) -> None:
    assert capable_members(brought(*versions), "deal") == who
    assert common_assignor(brought(*versions)) == ("deal" if who else None)


def test_an_assignor_that_one_member_lacks_is_not_used() -> None:
    one, other = ClientAssignor("one"), ClientAssignor("other")
    assert common_assignor({"a": (one, other), "b": (other,)}) == "other"
    assert common_assignor({"a": (one,), "b": (other,)}) is None
    assert common_assignor({"a": (one,), "b": ()}) is None
    assert common_assignor({}) is None


def test_members_vote_for_their_first_possible_assignor() -> None:
    one, other = ClientAssignor("one"), ClientAssignor("other")
    both, reverse = (one, other), (other, one)
    assert common_assignor({"a": both, "b": reverse, "c": reverse}) == "other"
    assert common_assignor({"a": both, "b": reverse}) == "one", "the first by name"


# --- the way to a target -------------------------------------------------------------------------


def test_the_first_member_computes_the_first_target() -> None:
    world = Coordinated()
    response = world.join("a", assignor(own=0, metadata_bytes=b"rack 7", reason=3))
    assert response.should_compute_assignment
    assert response.member_epoch == 1, "a computing member has an epoch"
    assert not response.assignment.topic_partitions
    prepared = world.prepare("a")
    assert (prepared.error_code, prepared.group_epoch, prepared.assignor_name) == (0, 2, "deal")
    (topic,) = prepared.topics
    assert (topic.topic_name, topic.topic_id, topic.num_partitions) == ("orders", world.topic_id, 4)
    (member,) = prepared.members
    assert (member.member_id, member.member_epoch, member.reason) == ("a", 1, 3)
    assert (member.metadata_version, bytes(member.metadata_bytes)) == (0, b"rack 7")
    assert member.subscribed_topic_ids == [world.topic_id]
    assert not member.owned_partitions
    assert world.install("a", {"a": [0, 1, 2, 3]}, prepared.group_epoch) == 0
    response = world.beat("a")
    assert (response.member_epoch, response.should_compute_assignment) == (2, False)
    assert [e.partitions for e in response.assignment.topic_partitions] == [[0, 1, 2, 3]]


@pytest.mark.design("001", "PrepareAssignment 5")
def test_prepare_returns_the_assignments_and_targets_of_all_members() -> None:
    world = two_of_a_group()
    world.beat("a", topic_partitions=[])
    world.beat("b")
    world.join("c", assignor())
    prepared = {each.member_id: each for each in world.prepare("a").members}
    assert set(prepared) == {"a", "b", "c"}
    assert [e.partitions for e in prepared["a"].target_partitions] == [[0, 2]]
    assert [e.partitions for e in prepared["b"].owned_partitions] == [[1, 3]]
    assert not prepared["c"].target_partitions


def test_other_members_keep_their_partitions_during_a_computation() -> None:
    world = two_of_a_group()
    before = world.beat("b").member_epoch
    joined = world.join("c", assignor())
    assert (joined.member_epoch, joined.should_compute_assignment) == (before, False)
    assert world.beat("b").member_epoch == before
    assert world.beat("a").should_compute_assignment


def test_a_target_has_the_prepared_epoch_even_if_the_group_has_changed() -> None:
    world = about_to_compute()
    prepared = world.group.epoch
    world.join("d", assignor())
    assert world.group.epoch == prepared + 1
    assert world.install("a", dealt(["a", "b", "c"]), prepared) == 0
    assert world.group.assignment_epoch == prepared
    assert world.targets() == {**dealt(["a", "b", "c"]), "d": []}
    assert world.computes == "a", "and the next one is computed"
    world.compute("a")
    assert world.targets() == dealt(["a", "b", "c", "d"])


def test_a_member_that_left_during_the_computation_gets_nothing() -> None:
    world = about_to_compute()
    prepared = world.group.epoch
    world.group.remove("b")
    assert world.install("a", dealt(["a", "b", "c"]), prepared) == 0
    assert "b" not in world.targets()
    assert world.computes == "a"


@pytest.mark.parametrize(
    "change",
    [
        {"client_assignors": [assignor(metadata_bytes=b"other")]},
        {"client_assignors": [assignor(high=1)]},
        {"subscribed_topic_names": ["orders", "more"]},
    ],
)
def test_new_assignor_metadata_of_a_member_causes_a_new_target(change: dict[str, Any]) -> None:
    world = two_of_a_group()
    epoch = world.group.epoch
    world.beat("b", **change)
    assert (world.group.epoch, world.computes) == (epoch + 1, "a")
    world.beat("b", **change)
    assert world.group.epoch == epoch + 1, "the same again is not"


# --- what is rejected -----------------------------------------------------------------------------

Ask = Callable[..., int]


def prepares(world: Coordinated, member_id: str, epoch: int | None = None, **named: Any) -> int:
    return int(world.prepare(member_id, epoch, **named).error_code)


def installs(world: Coordinated, member_id: str, epoch: int | None = None, **named: Any) -> int:
    return world.install(member_id, dealt(["a", "b", "c"]), epoch=epoch, **named)


@pytest.mark.design("001", "PrepareAssignment 1-4, InstallAssignment 1-4")
@pytest.mark.parametrize("ask", [prepares, installs])
def test_unauthorized_assignor_requests_are_rejected_with_the_reason(ask: Ask) -> None:
    world = about_to_compute()
    assert ask(world, "a", group_id="others") == code(errors.GroupIdNotFoundError)
    assert ask(world, "nobody") == code(errors.UnknownMemberIdError)
    assert ask(world, "a", world.epochs["a"] - 1) == code(errors.StaleMemberEpochError)
    assert ask(world, "a", world.epochs["a"] + 1) == code(errors.StaleMemberEpochError)
    assert ask(world, "b") == code(errors.UnknownMemberIdError), "not the chosen one"
    assert ask(world, "a") == 0


@pytest.mark.parametrize("ask", [prepares, installs])
def test_only_the_coordinator_accepts_assignor_requests(ask: Ask) -> None:
    world = about_to_compute()
    world.cluster.move_coordinator("others", 2)
    assert ask(world, "a", group_id="others") == code(errors.NotCoordinatorError)


def test_a_stale_group_epoch_is_rejected_without_skipping_the_member() -> None:
    world = about_to_compute()
    before = world.targets()
    for epoch in (world.group.epoch - 1, world.group.epoch + 1):
        refusal = world.install("a", dealt(["a", "b", "c"]), epoch)
        assert refusal == code(errors.StaleMemberEpochError)
    assert (world.targets(), world.computes) == (before, "a")
    world.compute("a")


def test_an_install_without_prepare_is_rejected() -> None:
    world = two_of_a_group()
    world.join("c", assignor())
    refusal = world.install("a", dealt(["a", "b", "c"]))
    assert refusal == code(errors.StaleMemberEpochError)


def test_a_repeated_install_is_rejected() -> None:
    world = about_to_compute()
    assert world.install("a", dealt(["a", "b", "c"])) == 0
    before = world.targets()
    assert world.install("a", {"a": [0]}) == code(errors.UnknownMemberIdError)
    assert world.targets() == before


BAD: dict[str, Callable[[Coordinated], list[Any]]] = {
    "unknown member": lambda world: [world.entry("x", [0])],
    "unknown partition": lambda world: [world.entry("a", [4])],
    "negative partition": lambda world: [world.entry("a", [-1])],
    "unknown topic": lambda world: [world.entry("a", [0], UUID(int=1))],
    "other topic": lambda world: [world.entry("a", [0], world.cluster.topics["more"].topic_id)],
    "twice to one": lambda world: [world.entry("a", [0, 0])],
    "twice to two": lambda world: [world.entry("a", [0]), world.entry("b", [0])],
    "two entries": lambda world: [world.entry("a", [0]), world.entry("a", [0])],
}


@pytest.mark.design("001", "InstallAssignment 5")
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_an_invalid_assignment_is_rejected_and_another_member_computes(
    bad: Callable[[Coordinated], list[Any]],
) -> None:
    world = about_to_compute()
    before = world.targets(), world.group.assignment_epoch
    assert world.install("a", {}, members=bad(world)) == code(InvalidAssignmentError)
    assert (world.targets(), world.group.assignment_epoch) == before
    assert world.computes == "b"
    assert not world.beat("a").should_compute_assignment
    assert world.beat("b").should_compute_assignment


@pytest.mark.parametrize(
    "announced",
    [
        [assignor(low=1)],
        [assignor(own=2)],
        [assignor(), assignor()],
        [assignor("")],
    ],
)
def test_an_invalid_announcement_is_rejected(announced: list[Any]) -> None:
    world = Coordinated()
    assert world.join("a", *announced).error_code == code(errors.InvalidRequestError)


def test_client_and_server_assignors_exclude_each_other() -> None:
    world = Coordinated()
    rejected = world.join("a", assignor(), server_assignor="uniform")
    assert rejected.error_code == code(errors.InvalidRequestError)
    assert world.join("a", server_assignor="uniform").error_code == 0


@pytest.mark.design("001", "Describe")
def test_a_description_names_the_client_side_assignor() -> None:
    world = about_to_compute()
    group = world.describe()
    assert (group.group_state, group.computing_member_id) == ("Assigning", "a")
    assert group.group_epoch == group.assignment_epoch + 1
    assert {
        each.member_id: each.client_assignors[0].name for each in group.members
    } == dict.fromkeys("abc", "deal")
    assert world.install("a", dealt(["a", "b", "c"])) == 0
    group = world.describe()
    assert (group.group_state, group.assignor_name) == ("Reconciling", "deal")
    assert group.computing_member_id is None
    targets = {m.member_id: m.target_assignment.topic_partitions for m in group.members}
    assert {m: e[0].partitions for m, e in targets.items()} == dealt(["a", "b", "c"])


@pytest.mark.parametrize("version", [0, 1])
def test_a_description_can_be_sent(version: int) -> None:
    world = about_to_compute()
    names = ["readers", "unknown"]
    request = ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)
    response = world.ask(request)
    read = ConsumerGroupDescribeResponse.decode(response.encode(version=version), version=version)
    found, missing = read.groups
    assert (found.computing_member_id, missing.computing_member_id) == ("a", None)
    assert [each.client_assignors[0].name for each in found.members] == ["deal"] * 3
    assert missing.error_code == code(errors.GroupIdNotFoundError)
    (rejected,) = world.ask(request, 2).groups[:1]
    assert rejected.error_code == code(errors.NotCoordinatorError)
