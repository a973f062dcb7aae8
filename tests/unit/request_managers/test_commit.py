"""Commits: order, retries and outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.errors import (
    CommitDuringRebalanceError,
    CommitFailedError,
    RetriableCommitFailedError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.events.application import AutoCommit, CommitAsync, CommitSync
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import Purpose, ToNode
from tandem_kafka.request_managers.reactions import COMMIT, Reaction
from tandem_kafka.state.group import REBALANCING, GroupIdentity
from tandem_kafka.types import NO_TOPIC_ID, OffsetAndMetadata, TopicPartition
from tests.unit.request_managers.world import (
    NODE_1,
    TOPIC_ID,
    TP,
    TP1,
    World,
    commit_response,
    coordinator_response,
    has_error_code,
)

RETRIED = {Reaction.RETRY, Reaction.REDISCOVER, Reaction.REFRESH}


@pytest.fixture
def world() -> World:
    world = World(group_id="readers")
    world.find_coordinator()
    return world


def offsets(offset: int, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(offset, "note", 3) for tp in partitions or (TP,)}


def commit(world: World, offset: int = 5, *, retry: bool = True) -> Completion[Any]:
    return ask(world, offsets(offset), retry=retry)


def ask(
    world: World,
    chosen: dict[TopicPartition, OffsetAndMetadata],
    *,
    retry: bool = True,
    **fields: Any,
) -> Completion[Any]:
    kind = CommitSync if retry else CommitAsync
    event = kind(offsets=chosen, **fields)
    world.group.commit.commit(event)
    return event.future


def committed_offset(unsent: Any) -> int:
    return int(unsent.message.topics[0].partitions[0].committed_offset)


def fail_or_response(world: World, unsent: Any, error: type[Exception]) -> None:
    if not has_error_code(error):
        unsent.future.fail(error("lost"))
    else:
        world.respond(unsent, commit_response(error))


@pytest.mark.behaviour(131)
def test_offset_epoch_and_metadata_are_sent_to_the_coordinator(world: World) -> None:
    world.identity.joined(9, "member")
    future = commit(world)
    unsent = world.sent(world.group.commit)
    assert unsent.destination == ToNode(NODE_1, Purpose.MAIN)
    message = unsent.message
    assert (message.group_id, message.member_id) == ("readers", "member")
    assert message.generation_id_or_member_epoch == 9
    (topic,) = message.topics
    assert (topic.name, topic.topic_id) == ("orders", TOPIC_ID)
    (entry,) = topic.partitions
    assert (entry.committed_offset, entry.committed_leader_epoch) == (5, 3)
    assert entry.committed_metadata == "note"
    world.respond(unsent, commit_response(None))
    assert future.result() == offsets(5)
    assert not world.poll(world.group.commit).unsent


def test_without_topic_ids_an_old_version_carries_names(world: World) -> None:
    unknown = TopicPartition("unknown", 0)
    ask(world, offsets(1, unknown))
    unsent = world.sent(world.group.commit)
    assert unsent.message._max_version == 9


def test_an_empty_commit_is_done_immediately(world: World) -> None:
    future = ask(world, {})
    assert future.result() == {}
    assert not world.poll(world.group.commit).unsent


@pytest.mark.behaviour(124)
@pytest.mark.design("000", "Co-ordinator 3")
@pytest.mark.parametrize(("error", "reaction"), COMMIT.items())
def test_reactions_of_a_sync_commit(
    world: World, error: type[Exception], reaction: Reaction
) -> None:
    future = commit(world)
    fail_or_response(world, world.sent(world.group.commit), error)
    if reaction in RETRIED:
        assert not future.done
        assert world.group.coordinator.known is (reaction is not Reaction.REDISCOVER)
        assert world.refresh_requested() is (reaction is Reaction.REFRESH)
        if reaction is Reaction.REDISCOVER:
            world.respond(world.sent(world.group.coordinator), coordinator_response(NODE_1))
        waited_ms, unsent = world.wait_and_send(world.group.commit)
        assert 80 <= waited_ms <= 120
        world.respond(unsent, commit_response(None))
        assert future.error is None
    elif reaction is Reaction.FENCED:
        assert isinstance(future.error, CommitFailedError)
        assert isinstance(future.error.__cause__, error)
        rebalancing = error is errors.RebalanceInProgressError
        assert isinstance(future.error, errors.RebalanceInProgressError) is rebalancing
    else:
        assert isinstance(future.error, error)
    assert not world.poll(world.group.commit).unsent


@pytest.mark.behaviour(123)
@pytest.mark.parametrize(("error", "reaction"), COMMIT.items())
def test_reactions_of_an_async_commit(
    world: World, error: type[Exception], reaction: Reaction
) -> None:
    future = commit(world, retry=False)
    fail_or_response(world, world.sent(world.group.commit), error)
    assert future.done
    if reaction in RETRIED:
        assert isinstance(future.error, RetriableCommitFailedError)
        assert isinstance(future.error.__cause__, error)
    elif reaction is Reaction.FENCED:
        assert isinstance(future.error, CommitFailedError)
    else:
        assert isinstance(future.error, error)
    assert not world.poll(world.group.commit, after_ms=10_000).unsent


@pytest.mark.parametrize(
    ("meanwhile", "retriable"),
    [
        (lambda group: group.set_state(REBALANCING), True),
        (lambda group: group.joined(4, "member"), True),
        (lambda group: group.joined(4, "another"), False),
        (lambda group: group.left(), False),
    ],
    ids=["rebalancing", "rebalanced", "another member", "left"],
)
def test_a_commit_overtaken_by_a_rebalance_can_be_retried_by_the_same_member(
    world: World, meanwhile: Callable[[GroupIdentity], None], retriable: bool
) -> None:
    world.identity.joined(3, "member")
    future = commit(world)
    unsent = world.sent(world.group.commit)
    meanwhile(world.identity)
    world.respond(unsent, commit_response(errors.IllegalGenerationError))
    assert isinstance(future.error, CommitFailedError)
    assert isinstance(future.error, CommitDuringRebalanceError) is retriable


def commit_before_revocation(world: World) -> Completion[Any]:
    return ask(world, offsets(5), releasing=True)


@pytest.mark.behaviour(126)
def test_a_stale_epoch_is_retried_during_a_release(world: World) -> None:
    world.identity.joined(3, "member")
    future = commit_before_revocation(world)
    world.respond(world.sent(world.group.commit), commit_response(errors.StaleMemberEpochError))
    assert not future.done
    world.identity.joined(4, "member")
    _, again = world.wait_and_send(world.group.commit)
    assert again.message.generation_id_or_member_epoch == 4
    world.respond(again, commit_response(None))
    assert future.error is None


@pytest.mark.behaviour(127)
@pytest.mark.parametrize("gone", [errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError])
def test_a_deleted_topic_does_not_delay_a_rebalance(world: World, gone: type[Exception]) -> None:
    future = commit_before_revocation(world)
    world.respond(world.sent(world.group.commit), commit_response(gone))
    assert type(future.error) is gone


def test_the_backoff_grows_and_a_thousand_iterations_do_not_spin(world: World) -> None:
    commit(world)
    pauses = []
    for _ in range(1_000):
        waited_ms, unsent = world.wait_and_send(world.group.commit)
        pauses.append(waited_ms)
        world.respond(unsent, commit_response(errors.CoordinatorLoadInProgressError))
    assert pauses[1] < pauses[2] < pauses[3] < pauses[4]
    assert min(pauses[6:]) >= 800


@pytest.mark.behaviour(122)
def test_commits_wait_for_the_coordinator_and_keep_their_order() -> None:
    world = World(group_id="readers")
    futures = [commit(world, number, retry=number == 4) for number in range(5)]
    assert not world.poll(world.group.commit).unsent
    world.respond(world.sent(world.group.coordinator), coordinator_response(NODE_1))
    unsent = world.poll(world.group.commit).unsent
    assert [committed_offset(each) for each in unsent] == [0, 1, 2, 3, 4]
    assert not any(future.done for future in futures)


def test_a_commit_waits_for_an_older_retriable_one_of_its_partition(
    world: World,
) -> None:
    older, newer = commit(world, 5, retry=True), commit(world, 9, retry=False)
    ask(world, {TP1: OffsetAndMetadata(3, "", 2)}, retry=False)
    first, beside = world.poll(world.group.commit).unsent
    assert committed_offset(first) == 5
    assert beside.message.topics[0].partitions[0].partition_index == 1
    world.respond(first, commit_response(errors.CoordinatorLoadInProgressError))
    waited_ms, again = world.wait_and_send(world.group.commit)
    assert (committed_offset(again), waited_ms > 50) == (5, True)
    world.respond(again, commit_response())
    assert older.error is None
    world.respond(world.sent(world.group.commit), commit_response())
    assert newer.result()[TP].offset == 9


def test_an_abandoned_commit_is_not_retried(world: World) -> None:
    future = commit(world)
    world.respond(
        world.sent(world.group.commit), commit_response(errors.CoordinatorLoadInProgressError)
    )
    future.fail(TimeoutError())
    assert not world.poll(world.group.commit, after_ms=10_000).unsent


@pytest.mark.behaviour(135)
def test_unauthorized_topics_are_reported_together(world: World) -> None:
    future = ask(world, offsets(5, TP, TP1))
    response = commit_response(
        errors.OffsetMetadataTooLargeError, errors.TopicAuthorizationFailedError
    )
    world.respond(world.sent(world.group.commit), response)
    assert isinstance(future.error, TopicAuthorizationFailedError)
    assert future.error.args[0] == {"orders"}


@pytest.mark.behaviour(128)
def test_the_interval_never_has_two_in_flight_and_is_not_retried(world: World) -> None:
    manager = world.group.commit
    manager.auto_commit(AutoCommit(offsets=offsets(1)))
    unsent = world.sent(manager)
    manager.auto_commit(AutoCommit(offsets=offsets(2)))
    assert not world.poll(manager).unsent
    world.respond(unsent, commit_response(errors.CoordinatorLoadInProgressError))
    assert not world.poll(manager, after_ms=10_000).unsent
    manager.auto_commit(AutoCommit(offsets=offsets(3)))
    assert committed_offset(world.sent(manager)) == 3


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (errors.GroupAuthorizationFailedError, True),
        (errors.RebalanceInProgressError, True),
        (errors.UnknownMemberIdError, False),
        (errors.FencedInstanceIdError, False),
    ],
)
def test_the_log_promises_a_retry_only_to_members(
    world: World, caplog: pytest.LogCaptureFixture, error: type[Exception], retried: bool
) -> None:
    world.group.commit.auto_commit(AutoCommit(offsets=offsets(1)))
    world.respond(world.sent(world.group.commit), commit_response(error))
    (line,) = [each for each in caplog.messages if each.startswith("auto-commit of orders-0 at 1")]
    assert line.endswith("; it is retried after auto_commit_interval_ms") == retried


@pytest.mark.behaviour(128)
def test_nothing_consumed_sends_nothing(world: World) -> None:
    world.group.commit.auto_commit(AutoCommit(offsets={}))
    assert not world.poll(world.group.commit).unsent


@pytest.mark.behaviour(129)
def test_a_sync_commit_does_not_wait_for_an_automatic_one(world: World) -> None:
    world.group.commit.auto_commit(AutoCommit(offsets=offsets(1)))
    world.sent(world.group.commit)
    commit(world, 2)
    assert committed_offset(world.sent(world.group.commit)) == 2


@pytest.mark.behaviour(110)
def test_a_coordinator_that_is_not_found_soon_fails_the_commits_of_close() -> None:
    world = World(group_id="readers")
    future = commit(world)
    world.poll(world.group.commit)
    world.group.commit.drain()
    result = world.poll(world.group.commit)
    assert result.wait_ms <= 1_000
    world.poll(world.group.commit, after_ms=result.wait_ms)
    assert isinstance(future.error, CommitFailedError)
    assert "has found no group coordinator" in str(future.error)


def test_close_sends_pending_commits(world: World) -> None:
    commit(world)
    assert len(world.group.commit.close(world.now_ms).unsent) == 1


def test_an_error_of_any_topic_fails_the_commit(world: World) -> None:
    other = TopicPartition("others", 0)
    future = ask(world, offsets(5, TP, other), retry=False)
    unsent = world.sent(world.group.commit)
    response = commit_response()
    (second,) = commit_response(errors.OffsetMetadataTooLargeError).topics
    second.name = "others"
    response.topics.append(second)
    world.respond(unsent, response, version=9)
    assert isinstance(future.error, errors.OffsetMetadataTooLargeError)
    assert "others-0" in str(future.error)


def test_a_partition_missing_in_the_response_is_not_committed(world: World) -> None:
    future = ask(world, offsets(5, TP, TP1))
    world.respond(world.sent(world.group.commit), commit_response())
    assert not future.done
    _, again = world.wait_and_send(world.group.commit)
    world.respond(again, commit_response(None, None))
    assert future.error is None


def test_what_was_stored_is_not_sent_again(world: World) -> None:
    event = CommitSync(offsets=offsets(5, TP, TP1))
    world.group.commit.commit(event)
    response = commit_response(None, errors.UnknownTopicOrPartitionError)
    world.respond(world.sent(world.group.commit), response)
    assert event.stored == {TP}
    later = commit(world, 9)
    [beside] = world.poll(world.group.commit).unsent
    assert committed_offset(beside) == 9
    world.respond(beside, commit_response())
    assert later.error is None
    _, again = world.wait_and_send(world.group.commit)
    [entry] = again.message.topics[0].partitions
    assert entry.partition_index == TP1.partition
    world.respond(again, commit_response(None, None))
    assert event.future.result() == offsets(5, TP, TP1)


@pytest.mark.parametrize("releasing", [False, True])
@pytest.mark.parametrize(
    "of_topic", [errors.UnknownTopicIdError, errors.TopicAuthorizationFailedError]
)
def test_an_error_of_one_topic_does_not_hide_that_of_all_others(
    world: World, of_topic: type[Exception], releasing: bool
) -> None:
    """The commit before a revocation failed, and stored nothing of the other topics."""
    event = CommitSync(offsets=offsets(5, TP, TP1), releasing=releasing)
    world.group.commit.commit(event)
    response = commit_response(of_topic, errors.CoordinatorLoadInProgressError)
    world.respond(world.sent(world.group.commit), response)
    assert not event.future.done
    later = ask(world, offsets(9, TP1), releasing=True)
    _, again = world.wait_and_send(world.group.commit)
    assert committed_offset(again) == 5, "the later one is not before it"
    world.respond(again, commit_response(of_topic, None))
    assert event.stored == {TP1}
    world.respond(world.sent(world.group.commit), commit_response(None, None))
    assert later.error is None


def test_a_moved_coordinator_is_noticed_besides_a_deleted_topic(world: World) -> None:
    ask(world, offsets(5, TP, TP1))
    response = commit_response(errors.UnknownTopicIdError, errors.NotCoordinatorError)
    world.respond(world.sent(world.group.commit), response)
    assert not world.group.coordinator.known


@pytest.mark.parametrize("subscribed", [False, True])
def test_a_retried_commit_has_the_current_generation(world: World, subscribed: bool) -> None:
    if subscribed:
        world.subscription.subscribe(["orders"])
    world.identity.joined(9, "member")
    future = commit(world)
    unsent = world.sent(world.group.commit)
    world.respond(unsent, commit_response(errors.CoordinatorLoadInProgressError))
    world.identity.joined(10, "member")
    _, again = world.wait_and_send(world.group.commit)
    message = again.message
    assert (message.generation_id_or_member_epoch, message.member_id) == (10, "member")
    world.respond(again, commit_response())
    assert future.error is None


def test_a_consumer_without_its_membership_commits_no_lost_partition(world: World) -> None:
    world.subscription.subscribe(["orders"])
    world.subscription.set_assigned([TP])
    world.identity.joined(9, "member")
    world.identity.left()
    future = commit(world)
    with pytest.raises(CommitFailedError):
        future.result()
    assert not world.poll(world.group.commit).unsent
    ask(world, offsets(5, TP1))
    assert world.sent(world.group.commit).message.member_id == ""


@pytest.mark.parametrize("error", [None, errors.CoordinatorLoadInProgressError])
def test_a_commit_in_flight_when_its_partition_is_released_is_not_sent_again(
    world: World, error: type[Exception] | None
) -> None:
    world.subscription.subscribe(["orders"])
    world.subscription.set_assigned([TP])
    world.identity.joined(9, "member")
    future = ask(world, offsets(5), assigned=world.subscription.assigned)
    unsent = world.sent(world.group.commit)
    world.subscription.set_assigned([])
    assert not world.poll(world.group.commit).unsent
    world.respond(unsent, commit_response(error))
    assert not world.poll(world.group.commit, after_ms=5_000).unsent
    if error is None:
        assert future.error is None, "the coordinator has stored it"
    else:
        with pytest.raises(CommitFailedError, match="may belong to another member"):
            future.result()


def ask_of(world: World, topic_id: UUID) -> Completion[Any]:
    """Commit the position of a topic with this id."""
    return ask(world, offsets(5), topic_ids={TP: topic_id})


def test_a_commit_has_the_topic_id_of_the_position(world: World) -> None:
    ask_of(world, TOPIC_ID)
    unsent = world.sent(world.group.commit)
    assert unsent.message.topics[0].topic_id == TOPIC_ID


def test_a_position_of_a_recreated_topic_is_not_committed(world: World) -> None:
    future = ask_of(world, UUID(int=6))
    assert not world.poll(world.group.commit).unsent
    with pytest.raises(CommitFailedError, match="orders has been deleted and recreated"):
        future.result()


def test_partitions_of_a_recreated_topic_each_have_the_id_of_their_position(world: World) -> None:
    """One is known to belong to the new topic, and the other is not yet: it had got the new id."""
    world.lead(1, 1, 2, topic_id=NO_TOPIC_ID)
    old = UUID(int=6)
    ask(world, offsets(5, TP, TP1), topic_ids={TP: old, TP1: TOPIC_ID})
    topics = world.sent(world.group.commit).message.topics
    sent = {(each.topic_id, part.partition_index) for each in topics for part in each.partitions}
    assert sent == {(old, TP.partition), (TOPIC_ID, TP1.partition)}


def test_a_commit_is_not_retried_for_a_recreated_topic(world: World) -> None:
    future = ask_of(world, TOPIC_ID)
    unsent = world.sent(world.group.commit)
    world.respond(unsent, commit_response(errors.UnknownTopicIdError))
    assert not future.done
    world.lead(1, 1, 2, topic_id=UUID(int=8))
    assert not world.poll(world.group.commit, after_ms=5_000).unsent
    with pytest.raises(CommitFailedError, match="recreated"):
        future.result()


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
@pytest.mark.parametrize("moved_on", [False, True])
def test_a_rejected_commit_ends_its_membership(
    world: World, error: type[Exception], moved_on: bool
) -> None:
    rejected: list[Exception] = []
    world.group.commit.on_rejected(rejected.append)
    world.identity.joined(9, "member")
    commit(world)
    unsent = world.sent(world.group.commit)
    if moved_on:
        world.identity.joined(10, "member")
    world.respond(unsent, commit_response(error))
    assert [type(each) for each in rejected] == [error] * (not moved_on)
