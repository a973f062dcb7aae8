"""What a coordinator answers to JoinGroup of classic members, a real one and the simulated one."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from tandem_kafka.testing import Simulation
from tests.integration.joining import Line, RawClassicMember, RealLine, SimulatedLine, name_of
from tests.integration.polling import Consume, poll_until
from tests.kafka.broker import KafkaCluster

Make = Callable[..., RawClassicMember]


@pytest.fixture
def real(kafka: KafkaCluster, consume: Consume) -> Iterator[Callable[[], Line]]:
    topic = kafka.admin.create_topic(f"joins-{uuid.uuid4().hex[:8]}", 1)
    warm = consume(topic, group_id="warm", group_protocol="consumer")
    poll_until(warm, warm.assignment)  # groups have coordinators from now on
    lines: list[RealLine] = []

    def line() -> Line:
        lines.append(RealLine(kafka.bootstrap()))
        return lines[-1]

    yield line
    for each in lines:
        each.close()


@pytest.fixture
def simulated() -> Iterator[Callable[[], Line]]:
    with Simulation("joins") as simulation:
        numbers = itertools.count()
        yield lambda: SimulatedLine(simulation, next(numbers))


@pytest.fixture(params=["real", "simulated"])
def member(request: pytest.FixtureRequest) -> Make:
    """Makes members that have not spoken yet."""
    line: Callable[[], Line] = request.getfixturevalue(request.param)
    group = f"group-{uuid.uuid4().hex[:8]}"

    def make(instance: str | None = None, **protocols: bytes) -> RawClassicMember:
        made = RawClassicMember(line(), group, instance)
        made.protocols = protocols or made.protocols
        return made

    return make


def alone(leader: RawClassicMember) -> None:
    begun = leader.join()
    assert (begun.error_code, begun.generation_id, begun.leader) == (0, 1, leader.member_id)
    leader.ask_to_sync(1, **{leader.member_id: b"all"})
    assert leader.synced() == (None, b"all")


def both_joined(leader: RawClassicMember, follower: RawClassicMember) -> None:
    """Both are in generation 2, and the assignment is awaited."""
    alone(leader)
    follower.ask_to_join()
    if not follower.is_parked():
        assert name_of(follower.joined().error_code) == "MemberIdRequiredError"
        follower.ask_to_join()
        assert follower.is_parked()
    assert leader.beat(1) == "RebalanceInProgressError"
    leader.ask_to_join()
    for each in (leader, follower):
        answer = each.joined()
        assert (answer.generation_id, answer.leader) == (2, leader.member_id)


def both_stable(leader: RawClassicMember, follower: RawClassicMember) -> None:
    """Both are in generation 2 and have their assignments."""
    both_joined(leader, follower)
    leader.ask_to_sync(2, **{leader.member_id: b"one", follower.member_id: b"two"})
    assert leader.synced() == (None, b"one")
    follower.ask_to_sync(2)
    assert follower.synced() == (None, b"two")


def test_a_follower_that_says_the_same_is_told_of_the_generation_there_is(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    follower.ask_to_join()
    again = follower.joined()
    assert (again.error_code, again.generation_id, again.leader) == (0, 2, leader.member_id)
    assert (list(again.members), again.skip_assignment) == ([], False)
    follower.ask_to_sync(2)
    assert follower.synced() == (None, b"two")
    assert leader.beat(2) is None


def test_a_leader_makes_all_join_again_even_if_it_says_the_same(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    leader.ask_to_join()
    assert leader.is_parked()
    assert follower.beat(2) == "RebalanceInProgressError"
    follower.ask_to_join()
    assert (leader.joined().generation_id, follower.joined().generation_id) == (3, 3)


def test_a_follower_that_says_something_else_makes_all_join_again(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    follower.protocols = {"range": b"something else"}
    follower.ask_to_join()
    assert follower.is_parked()
    assert leader.beat(2) == "RebalanceInProgressError"


def test_the_order_of_protocols_is_a_change_too(member: Make) -> None:
    leader, follower = (member(range=b"", sticky=b"") for _ in range(2))
    both_stable(leader, follower)
    follower.protocols = {"sticky": b"", "range": b""}
    follower.ask_to_join()
    assert follower.is_parked()


def test_while_the_assignment_is_awaited_also_the_leader_is_answered_at_once(member: Make) -> None:
    leader, follower = member(), member()
    both_joined(leader, follower)
    for each, listed in ((leader, 2), (follower, 0)):
        each.ask_to_join()
        again = each.joined()
        assert (again.error_code, again.generation_id, len(again.members)) == (0, 2, listed)
    leader.ask_to_sync(2, **{follower.member_id: b"two"})
    follower.ask_to_sync(2)
    assert follower.synced() == (None, b"two")


def test_while_the_assignment_is_awaited_a_change_makes_all_join_again(member: Make) -> None:
    leader, follower = member(), member()
    both_joined(leader, follower)
    follower.ask_to_sync(2)
    leader.protocols = {"range": b"something else"}
    leader.ask_to_join()
    assert follower.synced() == ("RebalanceInProgressError", b"")
    assert leader.is_parked()


@pytest.mark.parametrize("version", [9, 8])
def test_a_static_leader_that_comes_back_need_not_assign(member: Make, version: int) -> None:
    leader, back = member("one"), member("one")
    alone(leader)
    again = back.join(version)
    assert (again.error_code, again.generation_id) == (0, 1)
    if version == 9:
        assert (again.leader, len(again.members)) == (back.member_id, 1)
        assert again.skip_assignment
    else:
        assert (again.leader, list(again.members)) == (leader.member_id, [])
    back.ask_to_sync(1)
    assert back.synced() == (None, b"all")
    assert leader.beat(1) == "FencedInstanceIdError"


def test_a_static_follower_that_comes_back_is_told_that_it_follows(member: Make) -> None:
    leader, follower, back = member(), member("two"), member("two")
    both_stable(leader, follower)
    again = back.join()
    assert (again.generation_id, again.leader) == (2, leader.member_id)
    assert (list(again.members), again.skip_assignment) == ([], False)
    back.ask_to_sync(2)
    assert back.synced() == (None, b"two")
    assert leader.beat(2) is None


def test_a_static_member_that_comes_back_with_another_vote_begins_a_generation(
    member: Make,
) -> None:
    first, back = member("one", range=b"", sticky=b""), member("one", sticky=b"", range=b"")
    alone(first)
    again = back.join()
    assert (again.generation_id, again.protocol_name) == (2, "sticky")


def test_a_member_cannot_drop_what_all_had_in_common_even_alone(member: Make) -> None:
    only = member()
    alone(only)
    only.protocols = {"sticky": b""}
    assert name_of(only.join().error_code) == "InconsistentGroupProtocolError"


def test_a_group_begins_with_a_protocol(member: Make) -> None:
    first = member()
    first.protocols = {}
    assert name_of(first.join().error_code) == "InconsistentGroupProtocolError"
