"""What a share consumer knows of its sessions, and what the brokers do, are the same."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kafka import errors

from tandem_kafka import ShareConsumer, TopicPartition
from tandem_kafka.errors import CorruptRecordError, RecordLockLostError, TopicsDeniedError
from tandem_kafka.request_managers.share.consume_request_manager import ShareConsumeRequestManager
from tandem_kafka.request_managers.share.fetch_limits import MOST_RECORDS
from tandem_kafka.state.locks import Place
from tandem_kafka.wire.messages import (
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.releases import RELEASES
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.sharing import (
    LOCK_MS,
    TP,
    counted,
    places,
    session_of,
    sharing,
    take,
)

OTHER = TopicPartition("orders", 1)
_TOPIC: Any = ShareFetchResponse.ShareFetchableTopicResponse
_PARTITION: Any = _TOPIC.PartitionData


def book_of(simulation: Simulation) -> set[int]:
    """Return the partitions that the first broker has in its only session."""
    [session] = simulation.cluster.brokers[1].share_sessions._sessions.values()
    return {number for _, number in session.partitions}


def books_of(consumer: ShareConsumer[Any, Any]) -> dict[int, frozenset[Place]]:
    """Return the partitions that the consumer takes for those of its open sessions."""
    managers = consumer._core.engine.loop._managers
    [locks] = (each for each in managers if isinstance(each, ShareConsumeRequestManager))
    return {
        node_id: session.partitions
        for node_id, session in locks._sessions.items()
        if session.is_open
    }


def known_to(consumer: ShareConsumer[Any, Any]) -> set[int]:
    """Return the partitions that the consumer takes for those of its first session."""
    return {number for _, number in books_of(consumer)[1]}


def error_of(consumer: ShareConsumer[Any, Any]) -> Exception | None:
    try:
        consumer.poll(1_000)
    except Exception as error:  # noqa: BLE001 - it is looked at
        return error
    return None


# --- leaders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fetches", [True, False])
def test_a_broker_is_told_to_forget_a_partition_that_it_no_longer_leads(*, fetches: bool) -> None:
    """It was refused for ever, with a Metadata request each time."""
    with sharing("forgotten", brokers=2, partitions=2, count=1) as (simulation, start):
        simulation.cluster.move_leader(OTHER, 1)
        consumer = start()
        records = {record.partition: record for record in take(consumer, 2)}
        consumer.poll(1_000)
        assert book_of(simulation) == known_to(consumer) == {0, 1}
        if not fetches:  # ShareAcknowledge tells of the new leader
            consumer._parts.records.resting = True
            simulation.sleep(2_000)
        simulation.cluster.move_leader(OTHER, 2)
        records[1].accept()
        assert isinstance(consumer.commit()[OTHER], RecordLockLostError)
        for _ in range(3):
            consumer.poll(1_000)
        assert book_of(simulation) == known_to(consumer) == {0}
        before = counted(simulation, MetadataRequest)
        consumer.poll(10_000)
        assert counted(simulation, MetadataRequest) - before <= 1


def test_no_record_is_locked_of_a_partition_that_is_not_wanted_any_more() -> None:
    """The former leader still had it, and locked its records once it was the leader again."""
    with sharing("unwanted", brokers=2, count=0) as (simulation, start):
        for tp in create_topic(simulation, "payments", 1):
            simulation.cluster.move_leader(tp, 1)
        consumer = start()
        consumer.subscribe(["orders", "payments"])
        consumer.poll(7_000)
        simulation.cluster.move_leader(TP, 2)
        consumer.poll(2_000)
        consumer.subscribe(["payments"])
        consumer.poll(2_000)
        simulation.cluster.move_leader(TP, 1)
        produce(simulation, TP, 3)
        consumer.poll(2_000)
        assert places(take(start(), 3)) == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_the_book_of_each_session_is_that_of_its_broker(seed: int) -> None:
    """Whatever moves, comes, goes or fails."""
    with sharing(f"book {seed}", brokers=3, partitions=3, count=1) as (simulation, start):
        cluster, chosen = simulation.cluster, random.Random(seed)  # noqa: S311
        create_topic(simulation, "payments", 3)
        topics = "orders", "payments"
        consumer = start("implicit")
        for _ in range(60):
            tp = TopicPartition(chosen.choice(topics), chosen.randrange(3))
            match chosen.randrange(5):
                case 0:
                    consumer.subscribe(chosen.sample(topics, chosen.randint(1, 2)))
                case 1:
                    produce(simulation, tp, 2)
                case 2:
                    cluster.brokers[chosen.randint(1, 3)].share_sessions.clear()
                case _:
                    cluster.move_leader(tp, chosen.randint(1, 3))
            consumer.poll(chosen.choice([1, 50, 1_000]))
        consumer.subscribe(topics)
        for _ in range(10):
            consumer.poll(2_000)
        ids = [cluster.topics[name].topic_id for name in topics]
        led: dict[int, set[Place]] = {}
        for place in itertools.product(ids, range(3)):
            topic = cluster.topic_named(None, place[0])
            led.setdefault(topic.partitions[place[1]].leader, set()).add(place)
        books = books_of(consumer)
        assert {node_id: set(books[node_id]) for node_id in led} == led
        for node_id, places_led in led.items():
            [session] = cluster.brokers[node_id].share_sessions._sessions.values()
            assert session.partitions.keys() == places_led


def test_an_added_partition_is_read_as_soon_as_it_is_assigned() -> None:
    """The metadata lacked it until they were refreshed for their age."""
    with sharing("added", brokers=1, count=0) as (simulation, start):
        consumer = start()
        consumer.poll(10_000)
        simulation.cluster.add_partitions("orders", 2)
        produce(simulation, OTHER, 1)
        assert places(take(consumer, 1, within_ms=7_000)) == [(0, 1)]


def test_metadata_that_lack_a_partition_are_refreshed_less_and_less_often() -> None:
    with sharing("lacking", brokers=1, count=0) as (simulation, start):
        consumer = start()
        consumer.poll(10_000)

        def without_the_last(call: Call) -> Any:
            found = call.default()
            for topic in found.topics:
                topic.partitions = topic.partitions[:1]
            return found

        simulation.cluster.script(MetadataRequest, *[without_the_last] * 20)
        simulation.cluster.add_partitions("orders", 2)
        produce(simulation, OTHER, 1)
        before, began_ms = counted(simulation, MetadataRequest), simulation.clock.now_ms()
        assert places(take(consumer, 1)) == [(0, 1)]
        assert counted(simulation, MetadataRequest) - before == 21
        assert simulation.clock.now_ms() - began_ms > 12_000


def test_a_leader_that_the_metadata_do_not_name_is_looked_for() -> None:
    with sharing("unnamed", brokers=2, partitions=2, count=1) as (simulation, start):

        def without_the_second(call: Call) -> Any:
            found = call.default()
            found.brokers = found.brokers[:1]
            return found

        simulation.cluster.script(MetadataRequest, *[without_the_second] * 5)
        assert {record.partition for record in take(start(), 2, within_ms=5_000)} == {0, 1}


# --- errors ---------------------------------------------------------------------------------------


def altering(
    simulation: Simulation,
    alter: Callable[[Any], None],
    prepare: Callable[[Any], None] = lambda _request: None,
) -> None:
    """Alter all later fetches: the request, and the response, also one that is parked."""

    def handle(call: Call) -> Any:
        simulation.cluster.script(ShareFetchRequest, handle)
        deliver = call.deliver

        def altered(call: Call, response: Any) -> None:
            alter(response)
            deliver(call, response)

        call.deliver = altered
        prepare(call.request)
        response = call.default()
        if response is not None:
            alter(response)
        return response

    simulation.cluster.script(ShareFetchRequest, handle)


def refusing(simulation: Simulation, error: Any) -> Callable[[], None]:
    """Let the first broker refuse the first partition, at once; return what ends it."""
    topic_id = simulation.cluster.topic_named("orders", None).topic_id
    refuses = True

    def prepare(request: Any) -> None:
        forgotten = {n for each in request.forgotten_topics_data for n in each.partitions}
        named = {each.partition_index for topic in request.topics for each in topic.partitions}
        if refuses and 0 in (book_of(simulation) | named) - forgotten:
            request.max_wait_ms = 0

    def refuse(response: Any) -> None:
        if not refuses or 0 not in book_of(simulation):
            return
        for topic in response.responses:
            topic.partitions = [each for each in topic.partitions if each.partition_index]
        refused = _PARTITION(
            partition_index=0,
            error_code=error.errno,
            acknowledge_error_code=0,
            current_leader=_PARTITION.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
            records=b"",
            acquired_records=[],
        )
        response.responses.append(_TOPIC(topic_id=topic_id, partitions=[refused]))

    def end() -> None:
        nonlocal refuses
        refuses = False

    altering(simulation, refuse, prepare)
    return end


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownTopicOrPartitionError,
        errors.NotLeaderForPartitionError,
        errors.TopicAuthorizationFailedError,
        errors.CorruptRecordError,
        errors.UnknownError,
    ],
)
def test_a_partition_with_an_error_is_asked_for_with_a_pause(error: type[Exception]) -> None:
    """There were 70 requests and errors a second, of a broker that answers at once."""
    with sharing("error", brokers=1, count=0) as (simulation, start):
        consumer = start()
        consumer.poll(5_000)
        refusing(simulation, error)
        before = [counted(simulation, api) for api in (ShareFetchRequest, MetadataRequest)]
        found = [error_of(consumer) for _ in range(10)]
        fetches, refreshes = (
            counted(simulation, api) - count
            for api, count in zip((ShareFetchRequest, MetadataRequest), before, strict=True)
        )
        assert 8 <= fetches <= 20
        assert refreshes <= 20
        assert sum(each is not None for each in found) <= fetches


def test_a_partition_with_an_error_does_not_slow_its_neighbours() -> None:
    with sharing("neighbour", brokers=1, partitions=2, count=0) as (simulation, start):
        consumer = start()
        consumer.poll(5_000)
        refusing(simulation, errors.UnknownError)
        for _ in range(20):
            consumer.poll(130)
            produce(simulation, OTHER, 1)
            began_ms = simulation.clock.now_ms()
            for record in take(consumer, 1):
                record.accept()
            assert simulation.clock.now_ms() - began_ms < 50
        before = counted(simulation, ShareFetchRequest)
        consumer.poll(10_000)
        assert counted(simulation, ShareFetchRequest) - before < 60


def test_an_error_is_raised_for_each_answer_and_health_tells_while_it_lasts() -> None:
    with sharing("denied", brokers=1, count=0) as (simulation, start):
        consumer = start()
        consumer.poll(5_000)
        for _ in range(2):
            end = refusing(simulation, errors.TopicAuthorizationFailedError)
            for _ in range(3):
                assert isinstance(error_of(consumer), TopicsDeniedError)
            assert any("may not read the topic 'orders'" in x for x in consumer.health().troubles)
            end()
            assert error_of(consumer) is None
            assert consumer.health().troubles == ()
            simulation.cluster._scripts._handlers.clear()


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 2**63 - 1)],
        [(2**63 - 1, 2**63 - 1)],
        [(-2, 1)],
        [(2, 1)],
        [(0, 1), (1, 2)],
        # Each was kept, sorted, and acknowledged for itself: seventy times its bytes.
        [(2 * number, 2 * number) for number in range(2 * MOST_RECORDS + 1)],
    ],
    ids=["to the end", "at the end", "before 0", "backwards", "overlapping", "too many"],
)
def test_a_damaged_response_is_an_error_once(ranges: list[tuple[int, int]]) -> None:
    """Each poll() raised it, also when all later responses were whole."""
    with sharing("damaged", brokers=1) as (simulation, start):
        damaged = False

        def damage(response: Any) -> None:
            nonlocal damaged
            for each in (each for topic in response.responses for each in topic.partitions):
                if each.acquired_records and not damaged:
                    damaged = True
                    each.acquired_records = [
                        _PARTITION.AcquiredRecords(
                            first_offset=first, last_offset=last, delivery_count=1
                        )
                        for first, last in ranges
                    ]

        altering(simulation, damage)
        consumer = start()
        with pytest.raises(CorruptRecordError, match="is damaged: it has locked offsets between"):
            take(consumer, 1)
        produce(simulation, TP, 1)
        assert places(take(consumer, 4)) == [(0, 2), (1, 2), (2, 2), (3, 1)]
        assert session_of(consumer).refused == {}


@pytest.mark.parametrize("number", [0, 1_000])
def test_a_response_counts_once_for_a_partition_of_the_session(number: int) -> None:
    """Each of others, and each time that it named one, was an error of a poll()."""
    with sharing("named", brokers=1, count=0) as (simulation, start):
        topic_id = simulation.cluster.topic_named("orders", None).topic_id

        def refuse(response: Any) -> None:
            leader = _PARTITION.LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
            refused = [
                _PARTITION(
                    partition_index=each,
                    error_code=errors.CorruptRecordError.errno,
                    error_message=f"no {each}",
                    acknowledge_error_code=0,
                    current_leader=leader,
                    records=b"",
                    acquired_records=[],
                )
                for each in (number, number, number + 100)
            ]
            response.responses = [_TOPIC(topic_id=topic_id, partitions=refused)]

        consumer = start()
        consumer.poll(5_000)
        altering(simulation, refuse)
        found = error_of(consumer)
        assert found is None or number == 0
        simulation.cluster._scripts._handlers.clear()
        assert error_of(consumer) is None
        assert set(session_of(consumer).refused) <= {(topic_id, 0)}


# --- a broker that answers at once, and one that cannot renew -------------------------------------


def test_a_broker_whose_responses_are_empty_is_asked_with_a_pause() -> None:
    with sharing("empty", brokers=1, count=0) as (simulation, start):

        def at_once(call: Call) -> Any:
            call.request.max_wait_ms = 0
            return call.default()

        consumer = start()
        consumer.poll(5_000)
        simulation.cluster.script(ShareFetchRequest, *[at_once] * 10_000)
        before = counted(simulation, ShareFetchRequest)
        consumer.poll(1_000)
        assert counted(simulation, ShareFetchRequest) - before <= 100
        simulation.cluster._scripts._handlers.clear()


def test_a_broker_that_cannot_renew_keeps_the_session(caplog: pytest.LogCaptureFixture) -> None:
    """The next request had an epoch that it did not expect, and all locks ended."""
    with sharing("older", brokers=1) as (simulation, start):
        release = RELEASES["4.3"]
        versions = {**release.versions, ShareAcknowledgeRequest.API_KEY: (1, 1)}
        for broker in simulation.cluster.brokers.values():
            broker.release = replace(release, versions=versions)
        consumer = start(renew="auto")
        records = take(consumer, 3)
        simulation.sleep(LOCK_MS * 2 // 3)
        assert "the brokers cannot renew locks" in caplog.text
        for record in records:
            record.accept()
        assert consumer.commit() == {TP: None}
        assert start().poll(2 * LOCK_MS) == {}
