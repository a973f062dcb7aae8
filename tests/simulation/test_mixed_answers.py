"""Some answers are wrong and others right, for ever: it is bounded, and `health()` names the wrong.

The table of answers (`test_answers.py`) has one wrong answer to all requests of a kind.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import GroupAuthorizationFailedError, KafkaError, TopicsDeniedError
from tandem_kafka.runtime.native import native
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatResponse,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitResponse,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.call import CUT, Call
from tests.scenarios.numbered_records import create_topic
from tests.simulation.changing import changing, errors_in_fetches
from tests.simulation.repeating import RepeatingSimulation
from tests.simulation.sharing import counted

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)

#: No release of Kafka has the last one.
CODES = pytest.mark.parametrize("code", [-1, 6, 29, 9_999])


def produce(simulation: Simulation, *partitions: TopicPartition) -> None:
    """Produce a record for each partition twice a second."""

    def act() -> None:
        for tp in partitions:
            simulation.cluster.produce(tp, b"x")
        simulation.after(500, act)

    act()


def read(simulation: Simulation, consumer: KafkaConsumer, seconds: int) -> dict[Any, int]:
    """Poll on and catch errors; return how many records there were of each partition."""
    counts: dict[Any, int] = {}
    end_ms = simulation.clock.now_ms() + seconds * 1_000
    while simulation.clock.now_ms() < end_ms:
        try:
            batch = consumer.poll(500)
        except KafkaError:
            simulation.sleep(1)
            continue
        for tp, records in batch.items():
            counts[tp] = counts.get(tp, 0) + len(records)
    return counts


@CODES
@pytest.mark.parametrize("kind", [Simulation, *([] if native is None else [RepeatingSimulation])])
def test_a_partition_that_fails_is_named_while_others_are_read(
    code: int, kind: type[Simulation]
) -> None:
    """The fetches of the others had counted as the end of the failure."""
    with kind("one partition") as simulation:
        create_topic(simulation, "orders", 2)
        produce(simulation, FIRST, SECOND)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([FIRST, SECOND])
        wrong = errors_in_fetches(code, lambda number: number == 0)
        with changing(simulation, FetchResponse, lambda _: wrong):
            counts = read(simulation, consumer, 30)
            health = consumer.health()
        assert counts[SECOND] > 50
        assert FIRST not in counts
        assert (
            "assigned partitions that cannot be read: 1; orders-0: Fetch has failed for"
            in (health.not_ready[0])
        )
        assert health.partitions[FIRST].stuck is not None
        assert health.partitions[SECOND].stuck is None
        assert read(simulation, consumer, 2)[FIRST] > 50
        assert consumer.health().ready


def no_session(message: Any) -> None:
    message.error_code = 71


@pytest.mark.parametrize(
    "wrong", [*map(errors_in_fetches, CODES.args[1]), no_session], ids=[*CODES.args[1], "session"]
)
def test_a_follower_that_fails_is_asked_after_growing_pauses_and_named(wrong: Any) -> None:
    """The leader named it again and again, and each time the pauses began anew."""
    with Simulation("follower", brokers=2, racks=["a", "b"]) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        follower = 3 - simulation.cluster.at(FIRST).leader
        rack = simulation.cluster.brokers[follower].rack
        consumer = simulation.consumer(auto_offset_reset="earliest", client_rack=rack)
        consumer.assign([FIRST])
        change_for = lambda call: wrong if call.broker.node_id == follower else None  # noqa: E731
        with changing(simulation, FetchResponse, change_for) as received:
            assert not read(simulation, consumer, 60)
            assert 50 <= received[follower] <= 100
            assert counted(simulation, MetadataRequest) <= 100
            health = consumer.health()
        assert "cannot be read: 1; orders-0: Fetch has failed for" in health.not_ready[0]
        assert health.partitions[FIRST].stuck is not None
        assert read(simulation, consumer, 2)[FIRST] > 100
        assert consumer.health().ready


@CODES
def test_a_follower_that_fails_has_its_partition_no_longer_than_the_leader_names_it(
    code: int,
) -> None:
    """It had been asked for five minutes, as after UNKNOWN_SERVER_ERROR in Java."""
    with Simulation("follower", brokers=2, racks=["a", "b"]) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        follower = simulation.cluster.brokers[3 - simulation.cluster.at(FIRST).leader]
        consumer = simulation.consumer(auto_offset_reset="earliest", client_rack=follower.rack)
        consumer.assign([FIRST])
        assert read(simulation, consumer, 5)
        wrong = errors_in_fetches(code)
        change_for = lambda call: wrong if call.broker is follower else None  # noqa: E731
        with changing(simulation, FetchResponse, change_for):
            read(simulation, consumer, 1)  # what was in flight
            assert not read(simulation, consumer, 10)
            follower.rack = "c"  # as if it were out of sync: the leader does not name it
            assert read(simulation, consumer, 3)[FIRST] > 15
            assert consumer.health().ready


@pytest.mark.parametrize("code", [29, 1])
@pytest.mark.parametrize("way", ["seek", "seek_to_beginning"])
def test_an_application_that_seeks_after_each_error_does_not_ask_all_the_time(
    code: int, way: str
) -> None:
    """Each seek had ended the pause: more than 50 requests and errors a second."""
    with Simulation("seek") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer(auto_offset_reset="none")
        consumer.assign([FIRST])
        consumer.seek_to_beginning(FIRST)
        refused = errors_in_fetches(code)
        errors = 0
        with changing(simulation, FetchResponse, lambda _: refused) as received:
            end_ms = simulation.clock.now_ms() + 30_000
            while simulation.clock.now_ms() < end_ms:
                try:
                    consumer.poll(500)
                except KafkaError:
                    errors += 1
                    simulation.sleep(1)
                    if way == "seek":
                        consumer.seek(FIRST, 0)
                    else:
                        consumer.seek_to_beginning(FIRST)
        assert 20 <= errors <= 50
        assert received.total() <= 100
        assert read(simulation, consumer, 2)[FIRST] > 50


def test_leaders_that_name_each_other_are_asked_after_pauses() -> None:
    """They were asked as fast as they answered."""
    with Simulation("leaders", brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([FIRST])
        epochs = itertools.count(100)

        def change_for(call: Call) -> Callable[[Any], None]:
            def name_the_other(message: Any) -> None:
                errors_in_fetches(6)(message)
                message.node_endpoints = [
                    FetchResponse.NodeEndpoint(node_id=each.node_id, host=host, port=port)
                    for each in simulation.cluster.brokers.values()
                    for host, port in [each.address]
                ]
                for part in [part for each in message.responses for part in each.partitions]:
                    leader = type(part).LeaderIdAndEpoch
                    part.current_leader = leader(
                        leader_id=3 - call.broker.node_id, leader_epoch=next(epochs)
                    )

            return name_the_other

        with changing(simulation, FetchResponse, change_for) as received:
            assert not read(simulation, consumer, 30)
            assert len(received) == 2
            assert received.total() <= 100
            assert consumer.health().partitions[FIRST].stuck is not None


def test_a_lost_connection_that_nothing_needs_does_not_make_a_broker_unusable() -> None:
    """All was read, but the consumer was never ready again, and metadata was refreshed for ever."""
    with Simulation("lost", brokers=3) as simulation:
        create_topic(simulation, "orders", 3)
        partitions = [TopicPartition("orders", number) for number in range(3)]
        produce(simulation, *partitions)
        consumer = simulation.consumer(auto_offset_reset="earliest", metadata_max_age_ms=5_000)
        consumer.assign(partitions)
        read(simulation, consumer, 2)
        simulation.cluster.script(MetadataRequest, CUT)  # the next one goes to another broker
        read(simulation, consumer, 10)
        before = counted(simulation, MetadataRequest)
        counts = read(simulation, consumer, 30)
        assert min(counts.values()) >= 50
        assert len(counts) == 3
        assert consumer.health().ready
        assert not consumer.health().troubles
        assert counted(simulation, MetadataRequest) - before <= 8


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("way", ["poll", "iteration"])
def test_two_errors_at_once_are_both_raised_and_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, protocol: str, way: str
) -> None:
    """A client without any right: one had been raised, and the other was a traceback in the log."""
    with Simulation("no rights") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", group_id="g", group_protocol=protocol)
        denied = set_codes("topics", 29)
        refused = set_codes("coordinators", 30)
        raised = Counter[type[KafkaError]]()
        with (
            changing(simulation, MetadataResponse, lambda _: denied),
            changing(simulation, FindCoordinatorResponse, lambda _: refused),
        ):
            for _ in range(50):
                simulation.sleep(1_000)  # both are there at the next poll()
                try:
                    next(consumer) if way == "iteration" else consumer.poll(0)
                except KafkaError as error:
                    raised[type(error)] += 1
        assert raised.keys() == {TopicsDeniedError, GroupAuthorizationFailedError}
        assert min(raised.values()) >= 20
        lines = warnings_of(caplog)
        assert sum("poll() raised an error" in each for each in lines) == 2
        assert len(lines) <= 4


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_is_removed_after_each_join_is_not_ready(protocol: str) -> None:
    """Each time that it had joined, it had been ready."""
    heartbeats = {"classic": HeartbeatResponse, "consumer": ConsumerGroupHeartbeatResponse}
    with Simulation("removed", brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        produce(simulation, FIRST, SECOND)
        consumer: Any = simulation.consumer(
            "orders",
            group_id="g",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            **({"heartbeat_interval_ms": 1} if protocol == "classic" else {}),
        )

        def change_for(call: Call) -> Callable[[Any], None] | None:
            if getattr(call.request, "member_epoch", 1) <= 0:
                return None  # it joins
            simulation.cluster.expel("g", call.request.member_id)
            return lambda message: setattr(message, "error_code", 25)

        with changing(simulation, heartbeats[protocol], change_for):
            read(simulation, consumer, 5)
            for _ in range(100):
                assert not consumer.poll(100)
                reasons = consumer.health().not_ready
                assert any("removes this member again" in each for each in reasons), reasons
        read(simulation, consumer, 3)
        assert read(simulation, consumer, 2)
        assert consumer.health().ready


def test_errors_with_new_texts_do_not_pile_up_while_the_application_works() -> None:
    """Each had waited for a poll() of its own, so that no record was returned for minutes."""
    with Simulation("texts", brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer(
            "orders", group_id="g", group_protocol="consumer", auto_offset_reset="earliest"
        )
        count = itertools.count()

        def refuse(message: Any) -> None:
            message.error_code, message.error_message = 24, f"request {next(count)}"

        with changing(simulation, ConsumerGroupHeartbeatResponse, lambda _: refuse):
            for _ in range(3):
                with suppress(KafkaError):
                    consumer.poll(500)
                simulation.sleep(60_000)  # a slow handler
        assert next(count) > 100
        assert len(consumer._core.engine.background) <= 3
        errors = 0
        while errors <= 6:
            try:
                if consumer.poll(1_000):
                    break
            except KafkaError:
                errors += 1
        assert errors <= 6
        assert consumer.health().ready


def set_codes(entries: str, code: int) -> Callable[[Any], None]:
    """Return a change that gives each of the entries of a response an error."""

    def change(message: Any) -> None:
        for entry in getattr(message, entries):
            entry.error_code = code

    return change


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the consumer from WARNING on."""
    ours = [each for each in caplog.records if each.name.startswith("tandem_kafka")]
    return [each.getMessage() for each in ours if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("turns", [1, 2])
def test_a_topic_that_is_denied_now_and_then_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, turns: int
) -> None:
    """There was a line with each denial: another partition, or the next fetch, had ended it.

    Leaders may know different ACLs for some time, and authorizers may fail now and then.
    """
    with Simulation("denied", brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        produce(simulation, FIRST, SECOND)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([FIRST, SECOND])
        denied = errors_in_fetches(29, lambda number: number == 0)
        count = itertools.count()
        with changing(simulation, FetchResponse, lambda _: None if next(count) % turns else denied):
            read(simulation, consumer, 110)
        lines = [each for each in warnings_of(caplog) if "may not read the topic" in each]
        assert len(lines) == turns


def test_a_topic_stays_denied_while_another_partition_of_it_is_read() -> None:
    with Simulation("denied", brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        produce(simulation, FIRST, SECOND)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([FIRST, SECOND])
        denied = errors_in_fetches(29, lambda number: number == 0)
        with changing(simulation, FetchResponse, lambda _: denied):
            read(simulation, consumer, 5)
            for _ in range(50):
                with suppress(KafkaError):
                    consumer.poll(100)
                assert "may not read the topic 'orders'" in consumer.health().not_ready[0]
            consumer.assign([SECOND])
            read(simulation, consumer, 2)
            assert consumer.health().ready
        consumer.assign([FIRST, SECOND])
        assert read(simulation, consumer, 2)[FIRST] > 5
        assert consumer.health().ready


@pytest.mark.parametrize(
    ("response", "wrong", "told", "lines"),
    [
        (OffsetCommitResponse, lambda m: setattr(m, "topics", []), "invalid response to", 1),
        (FetchResponse, no_session, "a fetch session of broker 1 failed", 2),
    ],
)
def test_wrong_and_right_responses_in_turn_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, response: Any, wrong: Any, told: str, lines: int
) -> None:
    """There was a line with each wrong one."""
    caplog.set_level(logging.INFO, "tandem_kafka")
    with Simulation("turns") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer(
            group_id="readers", auto_offset_reset="earliest", auto_commit_interval_ms=500
        )
        consumer.assign([FIRST])
        count = itertools.count()
        with changing(simulation, response, lambda _: None if next(count) % 2 else wrong):
            read(simulation, consumer, 110)
        assert next(count) > 100
        assert len([each for each in caplog.messages if told in each]) == lines


def test_a_member_id_that_is_required_and_not_given_is_asked_for_after_pauses() -> None:
    """JoinGroup was sent again as fast as the coordinator answered."""
    with Simulation("required") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer("orders", group_id="g", auto_offset_reset="earliest")

        def refuse(message: Any) -> None:
            message.error_code, message.member_id = 79, ""

        with changing(simulation, JoinGroupResponse, lambda _: refuse) as received:
            assert not read(simulation, consumer, 20)
            assert 10 <= received.total() <= 100
            assert any("JoinGroup has failed for" in each for each in consumer.health().not_ready)
        assert read(simulation, consumer, 3)
        assert consumer.health().ready
