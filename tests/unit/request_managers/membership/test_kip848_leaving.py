"""How a KIP-848 member leaves: epochs, heartbeats and the end of the future."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.request_managers.membership.kip848.states import State
from tandem_kafka.types import LeaveOperation
from tests.unit.request_managers.membership.kip848_member import (
    INTERVAL_MS,
    ConsumerMember,
    beat_response,
)


@pytest.mark.behaviour(101, 108, 109)
@pytest.mark.parametrize(
    ("instance", "operation", "epoch"),
    [
        (None, LeaveOperation.DEFAULT, -1),
        (None, LeaveOperation.LEAVE, -1),
        (None, LeaveOperation.REMAIN, None),
        ("one", LeaveOperation.DEFAULT, -2),
        ("one", LeaveOperation.LEAVE, -1),
        ("one", LeaveOperation.REMAIN, -2),
    ],
)
def test_the_epoch_of_the_final_heartbeat(
    instance: str | None, operation: LeaveOperation, epoch: int | None
) -> None:
    member = ConsumerMember(group_instance_id=instance)
    member.settle()
    future = member.leaves(operation)
    if epoch is None:
        assert future.done
        assert member.quiet(after_ms=60_000)
    else:
        unsent = member.send()
        assert (unsent.message.member_epoch, unsent.message.instance_id) == (epoch, instance)
        assert unsent.message.topic_partitions is None
        assert not future.done
        member.respond(unsent, beat_response(epoch))
        assert future.done
    assert member.state is State.UNSUBSCRIBED
    assert member.world.identity.metadata.generation_id == -1, "99"
    assert member.leaves(operation).done, "once is enough"
    assert member.quiet(after_ms=60_000)


@pytest.mark.parametrize("error", [errors.KafkaConnectionError, errors.UnknownMemberIdError])
def test_leaving_ends_with_any_heartbeat_response(error: type[Exception]) -> None:
    member = ConsumerMember()
    member.settle()
    future = member.leaves()
    member.fail(member.send(), error)
    assert future.done
    assert future.error is None
    assert not member.world.raised()


def test_heartbeats_continue_while_the_listener_runs_and_targets_are_ignored() -> None:
    member = ConsumerMember()
    member.settle()
    member.manager.prepare_to_leave()
    assert member.state is State.PREPARE_LEAVING
    beat = member.beat(beat_response(3, (2,)))
    assert beat.message.member_epoch == 1
    assert member.world.identity.metadata.generation_id == 3, "commits continue too"
    assert member.beat(beat_response(3)).message.member_epoch == 3
    member.iterate()
    assert member.take_event() is None
    assert member.state is State.PREPARE_LEAVING
    member.leaves()
    assert member.send().message.member_epoch == -1


def test_leaving_without_a_membership_is_done_immediately() -> None:
    assert ConsumerMember().leaves().done


def test_leaving_without_a_coordinator_is_done_immediately() -> None:
    member = ConsumerMember()
    member.settle()
    member.world.group.coordinator.mark_unknown("gone")
    assert member.leaves().done
    assert member.state is State.UNSUBSCRIBED


@pytest.mark.behaviour(107)
def test_close_sends_the_final_heartbeat() -> None:
    member = ConsumerMember()
    member.settle()
    member.leaves()
    (unsent,) = member.manager.close(member.world.now_ms).unsent
    assert unsent.message.member_epoch == -1
    assert not member.manager.close(member.world.now_ms).unsent


def test_a_response_of_the_previous_membership_is_dropped() -> None:
    member = ConsumerMember()
    member.settle()
    old = member.send(after_ms=INTERVAL_MS)
    member.leaves()
    member.respond(member.send(), beat_response(-1))
    member.polls()
    join = member.send()
    member.respond(old, beat_response(7, (2,)))
    assert member.world.identity.metadata.generation_id == -1
    assert member.state is State.JOINING
    member.respond(join, beat_response(8, (2,)))
    assert member.world.identity.metadata.generation_id == 8


@pytest.mark.parametrize("error", [errors.KafkaConnectionError, errors.UnknownMemberIdError])
def test_a_member_that_rejoins_before_it_could_leave_leaves_first(error: type[Exception]) -> None:
    member = ConsumerMember()
    member.settle()
    member.leaves()
    member.polls()
    leave = member.send()
    assert leave.message.member_epoch == -1
    member.polls()
    assert member.quiet(), "the join could overtake it on its own connection"
    member.fail(leave, error)
    assert member.send().message.member_epoch == 0


def test_leaving_again_while_leaving_ends_with_the_same_response() -> None:
    member = ConsumerMember()
    member.settle()
    first, second = member.leaves(), member.leaves()
    assert not second.done
    member.respond(member.send(), beat_response(-1))
    assert first.done
    assert second.done
