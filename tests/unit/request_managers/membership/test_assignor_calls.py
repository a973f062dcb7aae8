"""Users' assignors run on another thread: the membership continues even if they are slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from kafka import errors
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka.errors import AssignorError, UnexpectedResponseError
from tandem_kafka.events.background import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from tandem_kafka.request_managers.membership.classic.states import State
from tandem_kafka.request_managers.user_code import UserCodeRunner
from tandem_kafka.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tests.unit.request_managers.membership.member import (
    BOTH,
    Member,
    heartbeat_response,
    joined_response,
    leading_response,
    synced_response,
)

HELD = frozenset(BOTH)


class Worker:
    """A thread that runs on demand."""

    def __init__(self) -> None:
        self.work: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.errors: list[Exception] = []
        self.code = UserCodeRunner(
            lambda work, done: self.work.append((work, done)), lambda: None, self.errors.append
        )

    def run(self) -> None:
        """Run the pending work."""
        work, done = self.work.popleft()
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - as the driver does
            result = error
        done(result)
        self.code.deliver()


class Noting(RangePartitionAssignor):
    """Records its calls, and raises in the given ones."""

    def __init__(self, *broken: str) -> None:
        self.calls: list[str] = []
        self._broken = broken

    def _note(self, what: str) -> None:
        self.calls.append(what)
        if what in self._broken:
            raise ZeroDivisionError(what)

    def metadata(self, topics: Any) -> Any:  # type: ignore[override]
        self._note("metadata")
        return super().metadata(topics)

    def assign(self, cluster: Any, members: Any) -> Any:  # type: ignore[override]
        self._note("assign")
        return super().assign(cluster, members)

    def on_assignment(self, assignment: Any, generation: int) -> None:  # type: ignore[override]
        self._note("on_assignment")
        super().on_assignment(assignment, generation)


class SlowMember(Member):
    """A member whose assignor runs on demand."""

    def __init__(self, *broken: str, **options: Any) -> None:
        self.worker = Worker()
        self.assignor = Noting(*broken)
        super().__init__(
            user_code=self.worker.code, partition_assignment_strategy=[self.assignor], **options
        )

    def lead(self) -> None:
        """Join as the leader, and start to compute."""
        self.application_polls()
        assert self.quiet()
        self.worker.run()
        join = self.send()
        self.respond(join, leading_response(join))
        self.beats(at_once=True)

    def beats(self, *, at_once: bool = False) -> None:
        """Let one heartbeat become due."""
        beat = self.send(after_ms=0 if at_once else 3_000)
        assert type(beat.message) is HeartbeatRequest
        self.respond(beat, heartbeat_response())

    def sync(self) -> None:
        sync = self.send()
        assert type(sync.message) is SyncGroupRequest
        self.respond(sync, synced_response())


def test_a_leader_sends_heartbeats_immediately_and_while_it_computes() -> None:
    member = SlowMember()
    member.lead()
    for _ in range(20):
        assert member.quiet(after_ms=0)
        member.beats()
    assert member.state is State.COMPLETING_REBALANCE
    member.worker.run()
    assert member.assignor.calls == ["metadata", "assign"]
    sync = member.send()
    assert [each.member_id for each in sync.message.assignments] == ["member-1"]
    assert member.quiet(after_ms=10_000), "no heartbeat while SyncGroup is in flight"


def test_a_heartbeat_is_passed_to_the_transport_before_the_leader_computes() -> None:
    member = SlowMember()
    member.application_polls()
    assert member.quiet()
    member.worker.run()
    join = member.send()
    member.respond(join, leading_response(join))
    beat = member.send()
    assert beat.keep_alive is not None
    assert beat.keep_alive.message.generation_id == 4


def test_a_member_sends_heartbeats_while_an_assignor_describes_it() -> None:
    member = SlowMember()
    member.lead()
    member.worker.run()
    member.sync()
    member.worker.run()
    member.apply()
    member.callback_done()
    beat = member.send(after_ms=3_000)
    member.respond(beat, heartbeat_response(errors.RebalanceInProgressError))
    member.world.poll(member.manager)
    assert member.take_event() == PartitionsRevoked(HELD)
    member.callback_done()
    for _ in range(10):
        member.beats()
    assert member.quiet()
    member.worker.run()
    assert type(member.send().message) is JoinGroupRequest


def test_the_listener_is_called_after_the_assignor_is_notified() -> None:
    member = SlowMember()
    member.application_polls()
    assert member.quiet()
    member.worker.run()
    member.respond(member.send(), joined_response())
    member.sync()
    assert member.take_event() is None
    member.beats()
    member.worker.run()
    assert member.assignor.calls == ["metadata", "on_assignment"]
    assert member.take_event() == PartitionsAssigned(HELD, HELD)


def test_a_result_for_a_lost_membership_is_dropped() -> None:
    member = SlowMember()
    member.lead()
    beat = member.send(after_ms=3_000)
    member.respond(beat, heartbeat_response(errors.UnknownMemberIdError))
    assert member.state is State.UNJOINED
    member.worker.run()
    member.worker.run()
    assert member.assignor.calls == ["metadata", "assign", "on_assignment"]
    assert member.quiet()
    member.worker.run()
    join = member.send()
    assert type(join.message) is JoinGroupRequest
    assert join.message.member_id == ""


def test_a_description_of_an_older_subscription_is_repeated() -> None:
    member = SlowMember()
    member.application_polls()
    assert member.quiet()
    member.world.subscription.subscribe(["orders", "others"])
    member.worker.run()
    assert member.quiet()
    member.worker.run()
    described = bytes(member.send().message.protocols[0].metadata)
    assert b"others" in described


def failed_in(call: str) -> SlowMember:
    """A member whose assignor has raised in this call, in its first rebalance."""
    member = SlowMember(call)
    fail_in(member, call)
    return member


def fail_in(member: SlowMember, call: str) -> None:
    member.application_polls()
    assert member.quiet()
    member.worker.run()
    if call != "metadata":
        join = member.send()
        leads = call == "assign"
        member.respond(join, leading_response(join) if leads else joined_response())
        if leads:
            member.beats(at_once=True)
        else:
            member.sync()
        member.worker.run()


@pytest.mark.parametrize("call", ["metadata", "assign", "on_assignment"])
def test_a_member_whose_assignor_raises_leaves_and_joins_again_later(call: str) -> None:
    member = failed_in(call)
    (error,) = member.world.raised()
    assert type(error) is AssignorError
    assert f"partition_assignment_strategy: {call}() of an assignor failed" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert member.world.identity.fatal is None
    assert member.world.identity.assignor_failure in str(error)
    member.worker.run()  # the assignor is told that nothing is assigned
    member.world.raised()
    if call != "metadata":  # otherwise the coordinator does not know the member
        leave = member.send()
        assert type(leave.message) is LeaveGroupRequest
        assert [each.member_id for each in leave.message.members] == ["member-1"]
    member.assignor._broken = ()
    result = member.world.poll(member.manager)
    assert 800 <= result.wait_ms <= 1_200
    assert member.quiet(after_ms=result.wait_ms)
    member.worker.run()
    join = member.send()
    assert type(join.message) is JoinGroupRequest
    assert join.message.member_id == ""


def test_the_pause_after_a_failure_of_an_assignor_grows_until_a_rebalance_succeeds() -> None:
    assignor = Noting("assign")
    member = Member(partition_assignment_strategy=[assignor])
    pauses = []
    for _ in range(6):
        member.application_polls()
        pause_ms, join = member.world.wait_and_send(member.manager)
        pauses.append(pause_ms)
        member.respond(join, leading_response(join))
        assert member.quiet()
        assert type(member.send().message) is LeaveGroupRequest
        member.world.raised()
    assignor._broken = ()
    member.application_polls()
    pause_ms, join = member.world.wait_and_send(member.manager)
    pauses.append(pause_ms)
    member.respond(join, leading_response(join))
    assert all(2**n * 800 <= each <= 2**n * 1_200 for n, each in enumerate(pauses[1:6])), pauses
    assert 24_000 <= pauses[6] <= 30_000
    member.respond(member.send(), synced_response())
    assert member.world.identity.assignor_failure is None
    assert member.manager._assignor_pauses.attempts == 0  # type: ignore[attr-defined]


def test_an_assignor_that_raises_while_the_member_leaves_does_not_hurry_it() -> None:
    member = SlowMember("on_assignment")
    member.application_polls()
    assert member.quiet()
    member.worker.run()
    member.respond(member.send(), joined_response())
    member.sync()
    member.manager.prepare_to_leave()
    member.worker.run()
    assert [type(each) for each in member.world.raised()] == [AssignorError]
    assert member.quiet(), "the listener runs first"
    assert member.state is State.LEAVING


def test_a_leader_that_cannot_read_a_subscription_leaves_it_to_another_member() -> None:
    member = Member()
    member.application_polls()
    join = member.send()
    response = leading_response(join, "member-1", "member-2")
    response.members[1].metadata = b"\0\1\0\0\0\7nonsense"
    member.respond(join, response)
    (error,) = member.world.raised()
    assert type(error) is AssignorError
    assert "reading the subscriptions of the members failed" in str(error)
    assert type(member.send().message) is LeaveGroupRequest


def test_an_undecodable_assignment_is_raised_by_poll_and_requested_again() -> None:
    member = SlowMember()
    member.application_polls()
    assert member.quiet()
    member.worker.run()
    member.respond(member.send(), joined_response())
    response = synced_response()
    response.assignment = b"\0\0\0\0\0\7nonsense"
    member.respond(member.send(), response)
    (error,) = member.world.raised()
    assert isinstance(error, UnexpectedResponseError)
    assert "SyncGroupRequest" in str(error)
    assert member.state is State.PREPARING_REBALANCE
    result = member.world.poll(member.manager)
    assert member.quiet(after_ms=result.wait_ms)
    member.worker.run()
    assert type(member.send().message) is JoinGroupRequest


def test_partitions_are_lost_without_waiting_for_an_assignor() -> None:
    member = SlowMember()
    member.lead()
    member.worker.run()
    member.sync()
    member.worker.run()
    member.apply()
    member.callback_done()
    beat = member.send(after_ms=3_000)
    member.respond(beat, heartbeat_response(errors.UnknownMemberIdError))
    assert member.take_event() == PartitionsLost(HELD)
