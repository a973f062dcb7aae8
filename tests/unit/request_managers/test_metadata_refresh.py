"""The refresh of cluster metadata."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.errors import (
    AuthenticationError,
    InvalidTopicError,
    KafkaConnectionError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import ANY_NODE, UnsentRequest
from tandem_kafka.types import Node, TopicPartition
from tandem_kafka.wire.messages import MetadataResponse
from tests.unit.request_managers.world import (
    NODE_1,
    NODE_2,
    TOPIC_ID,
    TP,
    Later,
    World,
    code,
)

_TOPIC = MetadataResponse.MetadataResponseTopic


def described_topic(
    name: str = "orders",
    leaders: tuple[int, ...] = (1, 1, 2),
    *,
    epoch: int = 3,
    error: type[Exception] | None = None,
    internal: bool = False,
    topic_id: UUID = TOPIC_ID,
) -> Any:
    partitions = [
        _TOPIC.MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            offline_replicas=[2],
        )
        for number, leader in enumerate(leaders)
    ]
    return _TOPIC(
        error_code=0 if error is None else code(error),
        name=name,
        topic_id=topic_id,
        is_internal=internal,
        partitions=[] if error is not None else partitions,
    )


def metadata_response(
    *topics: Any, nodes: tuple[Node, ...] = (NODE_1, NODE_2), error_code: int = 0
) -> Any:
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=n.node_id, host=n.host, port=n.port)
        for n in nodes
    ]
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=brokers,
        cluster_id="cluster",
        controller_id=1,
        topics=list(topics),
        error_code=error_code,
    )


def fresh(**options: object) -> World:
    return World(leaders=(), **options)


def request(world: World) -> UnsentRequest:
    return world.sent(world.managers.metadata)


def names(unsent: UnsentRequest) -> list[str] | None:
    topics = unsent.message.topics
    return None if topics is None else [topic.name for topic in topics]


def test_nothing_is_requested_before_it_is_needed() -> None:
    assert not fresh().poll(fresh().managers.metadata).unsent
    world = fresh()
    assert not world.poll(world.managers.metadata).unsent
    world.assign(TP)
    unsent = request(world)
    assert names(unsent) == ["orders"]
    assert unsent.destination is ANY_NODE
    assert not world.poll(world.managers.metadata, after_ms=10_000).unsent


@pytest.mark.behaviour(57)
def test_watched_topics_are_requested_immediately_and_with_every_refresh() -> None:
    world = fresh(metadata_max_age_ms=1_000)
    world.assign(TP)
    refresher = world.managers.metadata
    world.respond(request(world), metadata_response(described_topic()))
    refresher.watch(frozenset({"more"}))
    refresher.need({"less"}, world.now_ms + 500)
    assert not refresher.knows(frozenset({"more"}))
    unsent = request(world)
    assert names(unsent) == ["less", "more", "orders"]
    world.respond(unsent, metadata_response(described_topic()))
    unsent = world.sent(refresher, after_ms=1_000)
    assert names(unsent) == ["more", "orders"]
    world.respond(unsent, metadata_response(described_topic()))
    refresher.watch(frozenset())
    assert names(world.sent(refresher, after_ms=1_000)) == ["orders"]


def test_the_response_becomes_the_snapshot() -> None:
    world = fresh()
    world.assign(TP)
    world.respond(request(world), metadata_response(described_topic()))
    snapshot = world.metadata.snapshot
    assert snapshot.cluster_id == "cluster"
    assert snapshot.leader(TopicPartition("orders", 2)) == NODE_2
    info = snapshot.partition(TP)
    assert info is not None
    assert (info.leader_epoch, info.replicas, info.isr, info.offline_replicas) == (
        3,
        (1, 2),
        (1,),
        (2,),
    )
    assert snapshot.topic_id("orders") == TOPIC_ID


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/evil", "..", "", "x\x1b[2J", "orders\n", "a b", "x" * 250, "ö"]
)
def test_a_topic_name_that_cannot_be_is_left_out(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = fresh()
    world.assign(TP)
    wrong = described_topic(name, topic_id=UUID(int=8))
    world.respond(request(world), metadata_response(wrong, described_topic()))
    assert world.metadata.snapshot.topic_names == {TOPIC_ID: "orders"}
    assert caplog.text.rstrip("\n").isprintable()
    assert "topic name that Kafka does not allow" in caplog.text


def test_old_metadata_are_refreshed() -> None:
    world = fresh(metadata_max_age_ms=10_000)
    world.assign(TP)
    world.respond(request(world), metadata_response(described_topic()))
    result = world.poll(world.managers.metadata)
    assert result.wait_ms == 10_000
    assert not world.poll(world.managers.metadata, after_ms=9_999).unsent
    world.clock.advance_to(world.now_ms + 1)
    request(world)


def test_a_new_relevant_topic_is_requested_immediately() -> None:
    world = fresh()
    world.assign(TP)
    world.respond(request(world), metadata_response(described_topic()))
    world.assign(TP, TopicPartition("more", 0))
    assert names(request(world)) == ["more", "orders"]


def test_a_transient_topic_is_refreshed_for_a_while() -> None:
    world = fresh()
    world.managers.metadata.need(["looked-up"], world.now_ms + 1_000)
    assert names(request(world)) == ["looked-up"]
    world = fresh()
    world.managers.metadata.need(["looked-up"], world.now_ms + 1_000)
    world.clock.advance_to(world.now_ms + 1_000)
    assert not world.poll(world.managers.metadata).unsent


def test_the_backoff_grows_without_responses() -> None:
    world = fresh(retry_backoff_ms=0)
    world.assign(TP)
    began_ms = world.now_ms
    for _ in range(1_000):
        _, unsent = world.wait_and_send(world.managers.metadata)
        unsent.future.fail(KafkaConnectionError("cut"))
    assert world.now_ms - began_ms > 100_000


@pytest.mark.behaviour(55)
@pytest.mark.parametrize("kind", ["no topic", "no leader", "no brokers"])
def test_a_missing_topic_is_requested_again(kind: str) -> None:
    world = fresh()
    world.assign(TP)
    unsent = request(world)
    if kind == "no topic":
        missing = described_topic(error=errors.UnknownTopicOrPartitionError)
        world.respond(unsent, metadata_response(missing))
        assert world.metadata.snapshot.topic_errors.keys() == {"orders"}
    elif kind == "no leader":
        world.respond(unsent, metadata_response(described_topic(leaders=(-1,))))
    else:
        world.respond(unsent, metadata_response(nodes=()))
        assert world.metadata.snapshot.version == 0
    waited_ms, again = world.wait_and_send(world.managers.metadata)
    assert 80 <= waited_ms <= 120
    world.respond(again, metadata_response(described_topic()))
    assert world.metadata.snapshot.topic_errors == {}
    assert world.poll(world.managers.metadata).wait_ms > 10_000


def test_an_error_that_new_metadata_do_not_end_refreshes_them_with_a_pause() -> None:
    world = fresh(retry_backoff_ms=100)
    world.assign(TP)
    refresher = world.managers.metadata
    world.respond(request(world), metadata_response(described_topic()))
    for pauses in ((0, 100, 100), (0, 100)):
        for pause_ms in pauses:
            refresher.request_update()
            waited_ms, unsent = world.wait_and_send(refresher)
            assert waited_ms == pause_ms
            world.respond(unsent, metadata_response(described_topic()))
        refresher.request_update(at_once=True)
        world.respond(request(world), metadata_response(described_topic()))
        assert not world.poll(refresher, after_ms=1_000).unsent  # a quiet time


def test_an_older_leader_epoch_does_not_send_us_back() -> None:
    world = fresh()
    world.assign(TP)
    world.respond(request(world), metadata_response(described_topic(leaders=(2,), epoch=5)))
    world.managers.metadata.request_update()
    world.respond(request(world), metadata_response(described_topic(leaders=(1,), epoch=4)))
    assert world.metadata.snapshot.leader(TP) == NODE_2


@pytest.mark.behaviour(54)
@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (errors.TopicAuthorizationFailedError, TopicAuthorizationFailedError, "orders"),
        (errors.InvalidTopicError, InvalidTopicError, "rejects the topic names ['orders']"),
    ],
)
def test_errors_for_the_user_are_kept_for_the_loop(
    error: type[Exception], kind: type[Exception], text: str
) -> None:
    world = fresh()
    world.assign(TP)
    world.respond(request(world), metadata_response(described_topic(error=error)))
    taken = world.managers.metadata.take_error()
    assert taken is not None
    found, topics = taken
    assert isinstance(found, kind)
    assert text in str(found)
    assert set(topics) == {"orders"}
    assert world.managers.metadata.take_error() is None


def test_an_error_about_a_topic_of_another_member_is_raised_whatever_is_subscribed() -> None:
    """The leader assigned none of its partitions, and nobody was told."""
    world = fresh(metadata_max_age_ms=1_000)
    world.assign(TP)
    refresher = world.managers.metadata
    denied = errors.TopicAuthorizationFailedError
    refresher.watch(frozenset({"orders", "theirs"}))
    for topic, concerned in (("theirs", set()), ("orders", {"orders"})):
        answer = described_topic(topic, error=denied)
        world.respond(world.sent(refresher, after_ms=1_000), metadata_response(answer))
        _, topics = refresher.take_error() or (None, None)
        assert set(topics or ()) == concerned
        assert topics is not None


@pytest.mark.behaviour(175)
@pytest.mark.parametrize("error", [AuthenticationError("no"), UnsupportedVersionError("old")])
def test_a_rejected_connection_is_reported(error: Exception) -> None:
    world = fresh()
    world.assign(TP)
    request(world).future.fail(error)
    assert world.managers.metadata.take_error() == (error, ())
    world.wait_and_send(world.managers.metadata)


def test_a_lost_connection_is_not_reported() -> None:
    world = fresh()
    world.assign(TP)
    request(world).future.fail(KafkaConnectionError("cut"))
    assert world.managers.metadata.take_error() is None


def test_the_first_response_ends_the_wait_for_the_cluster() -> None:
    world = fresh()
    first: Completion[None] = Completion()
    world.managers.metadata.wait_for_answer(first, refresh=False)
    world.managers.metadata.request_update()
    world.respond(request(world), metadata_response())
    assert first.done
    second: Completion[None] = Completion()
    world.managers.metadata.wait_for_answer(second, refresh=False)
    assert second.done


# --- rebootstrap -------------------------------------------------------------------------------


@pytest.mark.behaviour(172)
def test_a_broker_may_request_a_rebootstrap() -> None:
    world = fresh()
    world.assign(TP)
    world.respond(request(world), metadata_response(described_topic()))
    world.managers.metadata.request_update()
    world.respond(request(world), metadata_response(error_code=129))
    assert world.metadata.rebootstraps == 1
    assert all(node.node_id < 0 for node in world.metadata.nodes())
    world.wait_and_send(world.managers.metadata)


@pytest.mark.behaviour(172)
@pytest.mark.parametrize(("strategy", "times"), [("rebootstrap", 1), ("none", 0)])
def test_lasting_metadata_failures_cause_a_rebootstrap(strategy: str, times: int) -> None:
    world = fresh(
        metadata_recovery_strategy=strategy, metadata_recovery_rebootstrap_trigger_ms=10_000
    )
    world.assign(TP)
    world.respond(request(world), metadata_response(described_topic()))
    world.managers.metadata.request_update()
    until_ms = world.now_ms + 12_000
    while world.now_ms < until_ms:
        _, unsent = world.wait_and_send(world.managers.metadata)
        unsent.future.fail(KafkaConnectionError("cut"))
    assert world.metadata.rebootstraps == times


# --- patterns ----------------------------------------------------------------------------------


@pytest.mark.behaviour(46, 48)
@pytest.mark.parametrize("hide", [True, False])
def test_a_pattern_requests_and_matches_all_topics(hide: bool) -> None:
    world = fresh(exclude_internal_topics=hide)
    world.subscription.subscribe_pattern(re.compile("or|__"))
    unsent = request(world)
    assert names(unsent) is None
    internal = described_topic("__offsets", internal=True, topic_id=UUID(int=8))
    other = described_topic("invoices", topic_id=UUID(int=9))
    world.respond(unsent, metadata_response(described_topic(), internal, other))
    assert world.subscription.topics == ({"orders"} if hide else {"orders", "__offsets"})


@pytest.mark.behaviour(46)
def test_a_topic_created_later_is_found_within_the_maximum_age() -> None:
    world = fresh(metadata_max_age_ms=10_000)
    world.subscription.subscribe_pattern(re.compile("or"))
    world.respond(request(world), metadata_response(described_topic()))
    unsent = world.sent(world.managers.metadata, after_ms=10_000)
    world.respond(
        unsent,
        metadata_response(described_topic(), described_topic("oranges", topic_id=UUID(int=9))),
    )
    assert world.subscription.topics == {"orders", "oranges"}


@pytest.mark.behaviour(49)
def test_a_pattern_that_matches_nothing_is_resolved() -> None:
    world = fresh()
    world.subscription.subscribe_pattern(re.compile("x"))
    assert not world.subscription.resolved
    world.respond(request(world), metadata_response(described_topic()))
    assert world.subscription.resolved
    assert world.subscription.topics == frozenset()


def test_a_topic_that_appears_while_a_pattern_is_matched_is_found_after_that() -> None:
    later = Later(held=True)
    world = fresh(user_code=later)
    world.subscription.subscribe_pattern(re.compile("or"))
    other = described_topic("oranges", topic_id=UUID(int=9))
    for topics in [(described_topic(),), (described_topic(), other)]:
        world.respond(request(world), metadata_response(*topics))
        world.managers.metadata.request_update(at_once=True)
    found = []
    while later.calls:
        later.calls.pop()()
        found.append(world.subscription.topics)
    assert found == [{"orders"}, {"orders", "oranges"}]


def test_a_topic_missing_in_a_full_response_is_removed() -> None:
    world = fresh()
    world.subscription.subscribe_pattern(re.compile("or"))
    world.respond(request(world), metadata_response(described_topic()))
    world.managers.metadata.request_update()
    world.respond(request(world), metadata_response())
    assert world.metadata.snapshot.topics == {}
    assert world.subscription.topics == frozenset()


def test_a_topic_found_by_id_without_leaders_is_requested_again() -> None:
    """A KIP-848 target may have a topic that was just created."""
    world = fresh()
    world.assign(TP)
    refresher = world.managers.metadata
    world.respond(request(world), metadata_response(described_topic()))
    anew = UUID(int=9)
    refresher.need_ids(frozenset({anew}))
    by_id = request(world)
    assert [topic.topic_id for topic in by_id.message.topics] == [anew]
    world.respond(by_id, metadata_response(described_topic(leaders=(-1,), topic_id=anew)))
    unsent = world.sent(refresher, after_ms=1_000)
    assert names(unsent) == ["orders"]
    world.respond(unsent, metadata_response(described_topic(leaders=(2,), topic_id=anew)))
    assert not world.poll(refresher, after_ms=10_000).unsent
