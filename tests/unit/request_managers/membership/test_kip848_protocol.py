"""A KIP-848 member: targets, fencing, missing polls and fatal errors."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.events.background import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from tandem_kafka.request_managers.membership.kip848.states import State
from tandem_kafka.types import TopicPartition
from tests.unit.request_managers.membership.kip848_member import (
    HELD,
    INTERVAL_MS,
    ConsumerMember,
    beat_response,
    owned,
)
from tests.unit.request_managers.world import TOPIC_ID, TP, TP1, TP2

FENCING = (errors.UnknownMemberIdError, errors.FencedMemberEpochError)
OTHER_ID = UUID(int=8)


# --- reconciliation ----------------------------------------------------------------------------


@pytest.mark.design("003", "JOINING, ASSIGNING")
def test_a_target_is_applied_and_acknowledged() -> None:
    member = ConsumerMember()
    member.polls()
    member.respond(member.send(), beat_response(1, (0, 1)))
    assert member.state is State.RECONCILING
    member.iterate()
    assert member.apply_assignment() == PartitionsAssigned(HELD, HELD)
    assert member.state is State.ACKNOWLEDGING
    assert not any(s.awaiting_callback for s in member.world.subscription.assigned.values())
    acknowledgement = member.send()
    assert owned(acknowledgement) == {TOPIC_ID: [0, 1]}
    assert member.state is State.STABLE
    assert member.world.identity.metadata.generation_id == 1


@pytest.mark.behaviour(66, 67)
@pytest.mark.design("001", "Heartbeat handling 4, 5")
def test_only_moving_partitions_are_released() -> None:
    member = ConsumerMember()
    member.settle()
    kept = member.world.subscription.assigned[TP]
    member.beat(beat_response(1, (0, 2)))
    member.iterate()
    assert member.take_event() == PartitionsRevoked(frozenset({TP1}))
    assert member.world.subscription.assigned[TP1].pending_revocation, "71"
    assert not kept.pending_revocation
    assert member.assigned == HELD, "69: still assigned while the listener runs"
    member.done()
    assert member.apply_assignment() == PartitionsAssigned(frozenset({TP, TP2}), frozenset({TP2}))
    assert member.world.subscription.assigned[TP] is kept, "75"
    assert owned(member.send()) == {TOPIC_ID: [0, 2]}


def test_kept_partitions_keep_their_order() -> None:
    """The order of a set differs between runs of Python."""
    member = ConsumerMember()
    member.world.lead(*(1,) * 12)
    member.settle(tuple(range(12)))
    member.beat(beat_response(1, tuple(range(10))))
    member.iterate()
    member.take_event()
    member.done()
    assert [tp.partition for tp in member.world.subscription.assigned] == list(range(10))


@pytest.mark.behaviour(67)
def test_the_listener_is_called_without_new_partitions() -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(1, (0,)))
    member.iterate()
    member.take_event()
    member.done()
    assert member.apply_assignment() == PartitionsAssigned(frozenset({TP}), frozenset())


def test_heartbeats_continue_while_a_listener_runs() -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(1, (0,)))
    member.iterate()
    for _ in range(5):
        slow = member.beat(beat_response(1))
        assert owned(slow) is None, "nothing new is owned yet"
    assert member.state is State.RECONCILING


@pytest.mark.behaviour(81)
def test_unresolved_partitions_wait_and_the_rest_is_assigned() -> None:
    member = ConsumerMember("orders", "more")
    member.polls()
    member.respond(member.send(), beat_response(1, {TOPIC_ID: (0, 1), OTHER_ID: (0,)}))
    member.iterate()
    assert member.apply_assignment().added == HELD
    partial = member.send()
    assert owned(partial) == {TOPIC_ID: [0, 1]}
    assert member.state is State.RECONCILING
    member.respond(partial, beat_response(1))
    wanted = member.world.managers.metadata
    assert set(wanted._unresolved_ids) == {OTHER_ID}
    member.iterate()
    assert member.take_event() is None
    rename(member, "more")
    member.iterate()
    new = TopicPartition("more", 0)
    assert member.apply_assignment() == PartitionsAssigned(HELD | {new}, frozenset({new}))
    assert owned(member.send()) == {TOPIC_ID: [0, 1], OTHER_ID: [0]}
    assert member.state is State.STABLE


@pytest.mark.behaviour(81)
def test_an_unresolved_target_is_acknowledged_as_empty() -> None:
    member = ConsumerMember()
    member.polls()
    member.respond(member.send(), beat_response(1, {OTHER_ID: (0,)}))
    first = member.send()
    assert not owned(first)
    assert member.state is State.RECONCILING
    member.respond(first, beat_response(1))
    assert member.quiet(), "the acknowledgement is not repeated"
    assert member.take_event() is None


def rename(member: ConsumerMember, name: str) -> None:
    """Metadata contain the name of the other topic."""
    from dataclasses import replace

    world = member.world
    topics = world.metadata.snapshot.topics
    more = replace(topics["orders"], name=name, topic_id=OTHER_ID)
    world.metadata.update(
        replace(world.metadata.snapshot, topics={**topics, name: more}), partial=False
    )


@pytest.mark.behaviour(82)
def test_a_target_that_arrives_meanwhile_is_applied_next() -> None:
    member = ConsumerMember()
    member.polls()
    member.respond(member.send(), beat_response(1, (0, 1)))
    member.iterate()
    member.respond(member.send(after_ms=INTERVAL_MS), beat_response(1, (1, 2)))
    assert member.apply_assignment().assignment == HELD, (
        "the reconciliation in progress finishes first"
    )
    first = member.send()
    assert owned(first) == {TOPIC_ID: [0, 1]}
    assert member.state is State.RECONCILING
    member.iterate()
    assert member.take_event() is None, "the coordinator may be freeing the unreported partitions"
    member.respond(first, beat_response(1))
    member.iterate()
    assert member.take_event() == PartitionsRevoked(frozenset({TP}))
    member.done()
    assert member.apply_assignment().assignment == {TP1, TP2}
    assert owned(member.send()) == {TOPIC_ID: [1, 2]}
    assert member.state is State.STABLE


@pytest.mark.behaviour(83)
def test_a_target_that_changes_back_is_reconciled_and_acknowledged_again() -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(2, (0,)))
    member.respond(member.send(after_ms=INTERVAL_MS), beat_response(2, (0, 1)))
    assert member.take_event() == PartitionsRevoked(frozenset({TP1})), "the revocation had started"
    member.done()
    assert member.apply_assignment() == PartitionsAssigned(frozenset({TP}), frozenset())
    between = member.send()
    assert owned(between) == {TOPIC_ID: [0]}
    member.respond(between, beat_response(2))
    member.iterate()
    assert member.apply_assignment() == PartitionsAssigned(HELD, frozenset({TP1}))
    again = member.send()
    assert owned(again) == {TOPIC_ID: [0, 1]}
    assert again.message.member_epoch == 2
    assert member.state is State.STABLE


def test_the_same_target_again_changes_nothing() -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(1, (1, 0)))
    member.iterate()
    assert member.take_event() is None
    assert member.state is State.STABLE


def test_a_negative_epoch_is_ignored() -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(-1, (2,)))
    assert member.world.identity.metadata.generation_id == 1
    member.iterate()
    assert member.take_event() is None
    assert member.send(after_ms=INTERVAL_MS).message.member_epoch == 1


@pytest.mark.behaviour(78)
@pytest.mark.parametrize("times", [1, 3])
def test_a_listener_that_failed_is_called_with_the_same_partitions(times: int) -> None:
    member = ConsumerMember()
    member.polls()
    member.respond(member.send(), beat_response(1, (0, 1)))
    member.iterate()
    for _ in range(times):
        assert member.apply_assignment(ValueError("no")) == PartitionsAssigned(HELD, HELD)
        assert all(s.awaiting_callback for s in member.world.subscription.assigned.values()), "77"
        assert member.state is State.RECONCILING
        assert member.take_event() is None
        member.polls()
    assert member.apply_assignment() == PartitionsAssigned(HELD, HELD)
    assert owned(member.send()) == {TOPIC_ID: [0, 1]}


@pytest.mark.behaviour(76)
def test_a_failed_revocation_is_retried_too() -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(1, (0,)))
    member.iterate()
    assert member.take_event() == PartitionsRevoked(frozenset({TP1}))
    member.done(ValueError("no"))
    assert member.assigned == HELD
    member.polls()
    assert member.take_event() == PartitionsRevoked(frozenset({TP1}))


def test_pending_partitions_are_claimed_during_a_revocation() -> None:
    member = ConsumerMember()
    member.settle((0,))
    member.beat(beat_response(2, (1,)))
    member.fail(member.send(after_ms=INTERVAL_MS), errors.CoordinatorLoadInProgressError)
    assert member.take_event() == PartitionsRevoked(frozenset({TP}))
    _, everything = member.world.wait_and_send(member.manager)
    # The callback may end, and the next one start, before this one arrives.
    assert owned(everything) == {TOPIC_ID: [0, 1]}
    member.done()
    assert member.apply_assignment() == PartitionsAssigned(frozenset({TP1}), frozenset({TP1}))
    member.respond(everything, beat_response(2))
    assert owned(member.send()) == {TOPIC_ID: [1]}


def test_pending_partitions_are_claimed_in_a_full_heartbeat() -> None:
    """Otherwise the coordinator could assign pending partitions to another member."""
    member = ConsumerMember()
    member.polls()
    member.respond(member.send(), beat_response(1, (0, 1)))
    member.iterate()
    member.fail(member.send(after_ms=INTERVAL_MS), errors.CoordinatorLoadInProgressError)
    _, again = member.world.wait_and_send(member.manager)
    assert owned(again) == {TOPIC_ID: [0, 1]}
    member.respond(again, beat_response(1, (0,)))
    member.apply_assignment()
    acknowledgement = member.send()
    assert owned(acknowledgement) == {TOPIC_ID: [0, 1]}
    member.respond(acknowledgement, beat_response(1))
    member.iterate()
    assert member.take_event() == PartitionsRevoked(frozenset({TP1}))


# --- fencing -----------------------------------------------------------------------------------


@pytest.mark.behaviour(84, 85)
@pytest.mark.design("001", "Heartbeat handling 2, 3")
@pytest.mark.design("003", "JOINED")
@pytest.mark.parametrize("error", FENCING)
@pytest.mark.parametrize("trouble", [None, ValueError("no")])
def test_a_fenced_member_loses_all_and_rejoins(
    trouble: Exception | None, error: type[Exception]
) -> None:
    member = ConsumerMember()
    member.settle()
    identity = member.chosen.member_id
    member.fail(member.send(after_ms=INTERVAL_MS), error)
    assert member.take_event() == PartitionsLost(HELD)
    assert all(s.pending_revocation for s in member.world.subscription.assigned.values())
    assert member.quiet(after_ms=60_000)
    member.done(trouble)
    assert member.assigned == set()
    again = member.send()
    assert (again.message.member_epoch, again.message.member_id) == (0, identity)
    assert owned(again) == {}
    member.respond(again, beat_response(5, (0, 1)))
    member.iterate()
    assert member.apply_assignment() == PartitionsAssigned(HELD, HELD)
    assert owned(member.send()) == {TOPIC_ID: [0, 1]}


@pytest.mark.parametrize("error", FENCING)
def test_a_member_fenced_during_an_assignment_forgets_it(error: type[Exception]) -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(1, (0, 1, 2)))
    member.iterate()
    assigned = member.world.background.take()
    assert isinstance(assigned, PartitionsAssigned)
    member.fail(member.send(after_ms=INTERVAL_MS), error)
    assert member.world.identity.callback not in (0, assigned.number), "the callback is cancelled"
    member.manager.callback_completed(assigned.number, None)
    assert member.state is State.FENCED, "a late completion is ignored"
    assert member.take_event() == PartitionsLost(HELD)
    member.done()
    join = member.send()
    assert join.message.member_epoch == 0
    member.respond(join, beat_response(5))
    member.fail(member.send(after_ms=INTERVAL_MS), errors.CoordinatorLoadInProgressError)
    _, everything = member.world.wait_and_send(member.manager)
    assert owned(everything) == {}


def test_a_member_fenced_while_leaving_has_left() -> None:
    member = ConsumerMember()
    member.settle()
    member.manager.prepare_to_leave()
    beat = member.send(after_ms=INTERVAL_MS)
    member.fail(beat, errors.UnknownMemberIdError)
    assert member.state is State.UNSUBSCRIBED
    assert member.take_event() is None
    assert member.leaves().done
    assert member.quiet(after_ms=60_000)


# --- missing polls -----------------------------------------------------------------------------


@pytest.mark.behaviour(86)
@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_a_member_that_does_not_poll_leaves_and_rejoins_with_the_next_poll(
    instance: str | None, epoch: int
) -> None:
    member = ConsumerMember(max_poll_interval_ms=20_000, group_instance_id=instance)
    member.settle()
    while True:
        _, unsent = member.world.wait_and_send(member.manager)
        if unsent.message.member_epoch < 0:
            break
        member.respond(unsent, beat_response(1))
    assert unsent.message.member_epoch == epoch
    assert 20_000 <= member.world.now_ms - 1_000 <= 21_000
    assert member.state is State.STALE
    assert member.world.identity.metadata.generation_id == -1
    member.respond(unsent, beat_response(epoch))
    assert member.quiet(after_ms=60_000)
    assert member.take_event() == PartitionsLost(HELD)
    member.polls()
    assert member.quiet(), "not before the listener is done"
    member.done()
    assert member.assigned == set()
    assert member.send().message.member_epoch == 0


# --- fatal -------------------------------------------------------------------------------------


@pytest.mark.behaviour(94, 95)
@pytest.mark.design("001", "GROUP_MAX_SIZE_REACHED")
def test_a_fatal_error_is_raised_by_every_poll_until_unsubscribing() -> None:
    member = ConsumerMember()
    member.settle()
    member.fail(member.send(after_ms=INTERVAL_MS), errors.InvalidRequestError)
    (error,) = member.world.raised()
    for _ in range(3):
        assert member.world.identity.fatal is error
        assert isinstance(error, errors.InvalidRequestError)
        result = member.world.poll(member.manager, after_ms=10_000)
        assert not result.unsent
        assert result.wait_ms > 3_600_000, "the manager stays idle"
        member.polls()
    assert member.leaves().done
    assert member.state is State.UNSUBSCRIBED
    assert member.world.identity.fatal is None
    member.polls()
    assert member.send().message.member_epoch == 0
    assert not member.world.raised()


def test_a_fatal_error_loses_all_partitions() -> None:
    member = ConsumerMember()
    member.settle()
    held = frozenset(member.assigned)
    member.fail(member.send(after_ms=INTERVAL_MS), errors.FencedInstanceIdError)
    assert member.take_event() == PartitionsLost(held)
    member.done()
    assert member.assigned == set()
    assert len(member.world.raised()) == 1


def test_a_group_that_became_classic_is_joined_again() -> None:
    member = ConsumerMember()
    member.settle()
    held = frozenset(member.assigned)
    member.fail(member.send(after_ms=INTERVAL_MS), errors.GroupIdNotFoundError)
    assert member.take_event() == PartitionsLost(held)
    member.done()
    join = member.send()
    assert join.message.member_epoch == 0
    member.fail(join, errors.GroupIdNotFoundError)
    assert member.state is State.FATAL, "the group rejects such members"
    assert len(member.world.raised()) == 1


def test_an_unauthorized_group_is_fatal_once_it_is_needed() -> None:
    member = ConsumerMember()
    member.chosen._fail(errors.GroupAuthorizationFailedError("readers"))
    assert not member.world.raised(), "nothing needs the group yet"
    member.polls()
    member.chosen._fail(errors.GroupAuthorizationFailedError("readers"))
    assert len(member.world.raised()) == 1
