"""The metadata of a computed assignment reach the assignor of each member."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors

from tandem_kafka.assignors import MemberAssignment
from tandem_kafka.errors import LocalAssignorError
from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tandem_kafka.request_managers.membership.kip848.states import State
from tests.unit.request_managers.membership.kip848_member import (
    INTERVAL_MS,
    ConsumerMember,
    beat_response,
)
from tests.unit.request_managers.membership.test_local_assignment import (
    Noted,
    signalled,
    state_response,
)
from tests.unit.request_managers.world import TP, TP1, TP2, Later


class Notified(Noted):
    """Records its notifications, or raises."""

    def __init__(self) -> None:
        super().__init__()
        self.notified: list[tuple[set[Any], int, bytes, int]] = []
        self.error: Exception | None = None

    def on_assignment(self, assignment: MemberAssignment) -> None:
        version, metadata = assignment.metadata_version, assignment.metadata
        self.notified.append((set(assignment.partitions), version, metadata, assignment.error))
        if self.error is not None:
            raise self.error


def handing(
    target: tuple[int, ...], metadata: bytes, epoch: int = 1, name: str | None = "noted"
) -> Any:
    response = beat_response(epoch, target)
    response.assignment.assignor_name = name
    response.assignment.metadata_version = 3
    response.assignment.metadata_bytes = metadata
    return response


def joined(metadata: bytes = b"first") -> tuple[ConsumerMember, Notified]:
    """A stable member with partitions 0 and 1."""
    notified = Notified()
    member = ConsumerMember(group_local_assignors=[notified])
    member.polls()
    member.respond(member.send(), handing((0, 1), metadata))
    member.iterate()
    member.apply_assignment()
    member.respond(member.send(), beat_response(1))
    assert member.state is State.STABLE
    return member, notified


def test_the_assignor_is_notified_before_the_listener() -> None:
    notified = Notified()
    member = ConsumerMember(group_local_assignors=[notified])
    member.polls()
    member.respond(member.send(), handing((0, 1), b"first"))
    assert notified.notified == []
    member.iterate()
    assert notified.notified == [({TP, TP1}, 3, b"first", 0)]
    assert isinstance(member.take_event(), PartitionsAssigned)


def test_a_member_fenced_while_the_assignor_is_notified_starts_over() -> None:
    later = Later()
    member = ConsumerMember(group_local_assignors=[Notified()], user_code=later)
    member.polls()
    member.respond(member.send(), handing((0, 1), b"first"))
    later.held = True
    member.iterate()
    (notified,) = later.calls
    later.held = False
    member.beat(beat_response(-1, error=errors.FencedMemberEpochError))
    member.respond(member.send(), handing((1,), b"second"))
    member.iterate()
    event = member.take_event()
    assert isinstance(event, PartitionsAssigned)
    assert event.assignment == {TP1}
    notified()
    member.iterate()
    assert member.take_event() is None, "that assignment belongs to the previous membership"


def test_it_is_notified_again_when_only_the_metadata_change() -> None:
    member, notified = joined()
    member.beat(handing((0, 1), b"second", epoch=2))
    assert notified.notified == [({TP, TP1}, 3, b"first", 0), ({TP, TP1}, 3, b"second", 0)]
    assert member.take_event() is None, "no partition changes"
    member.beat(handing((0, 1), b"second", epoch=2))
    assert len(notified.notified) == 2, "the assignor already has this metadata"


def test_it_is_notified_of_the_rest_after_its_release() -> None:
    member, notified = joined()
    member.beat(handing((1, 2), b"second", epoch=2))
    member.iterate()
    assert isinstance(member.take_event(), PartitionsRevoked)
    assert len(notified.notified) == 1
    member.done()
    assert notified.notified[1:] == [({TP1, TP2}, 3, b"second", 0)]


def test_metadata_stay_with_their_partitions() -> None:
    """A target that arrives while another is applied waits together with its metadata."""
    member, notified = joined()
    member.beat(handing((1,), b"second", epoch=2))
    member.iterate()
    assert isinstance(member.take_event(), PartitionsRevoked)
    member.beat(handing((1, 2), b"third", epoch=3))
    member.done()
    assert notified.notified[1:] == [({TP1}, 3, b"second", 0)]
    member.apply_assignment()
    member.respond(member.send(), beat_response(3))
    member.iterate()
    assert notified.notified[2:] == [({TP1, TP2}, 3, b"third", 0)]


def test_metadata_that_change_during_an_assignment_are_passed_on_afterwards() -> None:
    member, notified = joined()
    member.beat(handing((0, 1, 2), b"second", epoch=2))
    member.iterate()
    member.beat(handing((0, 1, 2), b"third", epoch=3))
    member.apply_assignment()
    everything = {TP, TP1, TP2}
    assert notified.notified[1:] == [(everything, 3, b"second", 0), (everything, 3, b"third", 0)]


@pytest.mark.parametrize("name", [None, "another"])
def test_it_is_not_notified_of_results_of_others(name: str | None) -> None:
    member, notified = joined()
    member.beat(handing((0,), b"", epoch=2, name=name))
    member.iterate()
    member.done()
    assert len(notified.notified) == 1
    assert member.assigned == {TP}


def test_its_result_after_one_of_the_coordinator_is_new() -> None:
    member, notified = joined()
    member.beat(handing((0, 1), b"", epoch=2, name=None))
    member.beat(handing((0, 1), b"first", epoch=3))
    assert notified.notified == [({TP, TP1}, 3, b"first", 0)] * 2


def test_after_rejoining_the_same_assignment_is_new() -> None:
    member, notified = joined()
    member.fail(member.send(after_ms=INTERVAL_MS), errors.FencedMemberEpochError)
    member.take_event()
    member.done()
    member.polls()
    member.respond(member.send(), handing((0, 1), b"first"))
    member.iterate()
    assert notified.notified == [({TP, TP1}, 3, b"first", 0)] * 2


def test_its_error_is_raised_by_poll_and_the_assignment_is_applied() -> None:
    member, notified = joined()
    notified.error = ArithmeticError("too much")
    member.beat(handing((0, 1), b"second", epoch=2))
    raised: Any = member.take_event()
    assert isinstance(raised.error, LocalAssignorError)
    assert "on_assignment() of assignor noted failed: ArithmeticError('too much')" in str(
        raised.error
    )
    assert member.state is State.STABLE


def test_metadata_of_assign_are_installed() -> None:
    member, noted, request = signalled()
    noted.result = {"other": MemberAssignment([TP2], b"yours", 4, 5), "me": [TP]}
    member.respond(request, state_response())
    brought = {each.member_id: each for each in member.send().message.members}
    assert (brought["other"].metadata_version, brought["other"].metadata_bytes) == (4, b"yours")
    assert [each.partitions for each in brought["other"].partitions] == [[2]]
    assert (brought["me"].metadata_version, brought["me"].metadata_bytes) == (0, b"")
    assert (brought["other"].error, brought["me"].error) == (5, 0)


@pytest.mark.parametrize(
    ("field", "value", "limits"),
    [
        ("metadata_version", -1, "from 0 to 32767"),
        ("metadata_version", 32_768, "from 0 to 32767"),
        ("error", -1, "from 0 to 127"),
        ("error", 128, "from 0 to 127"),
    ],
)
def test_a_number_beyond_its_limits_is_the_assignors_error(
    field: str, value: int, limits: str
) -> None:
    member, noted, request = signalled()
    noted.result = {"me": MemberAssignment([TP], **{field: value})}
    member.respond(request, state_response())
    raised: Any = member.take_event()
    assert f"{field} must be {limits}, got {value}" in str(raised.error)
    assert member.send().message.error_code != 0


def test_an_error_code_reaches_the_members_own_assignor() -> None:
    member, notified = joined()
    response = handing((0, 1), b"first", epoch=2)
    response.assignment.error = 9
    member.beat(response)
    assert [error for *_, error in notified.notified] == [0, 9], "a new error is passed on"
