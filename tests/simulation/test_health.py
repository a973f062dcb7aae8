"""`health()` tells the truth while brokers, the group and the application change."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from kafka.errors import CoordinatorLoadInProgressError, KafkaStorageError

from tandem_kafka import TopicPartition
from tandem_kafka.errors import FencedInstanceIdError, KafkaError
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchResponse,
    HeartbeatRequest,
    OffsetFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.sharing import sharing, take

TP = TopicPartition("orders", 0)
PROTOCOLS = pytest.mark.parametrize(
    "options", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"]
)


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_in_a_fork_it_is_not_alive(kind: str) -> None:
    """It said "alive" for 15 seconds, until the network thread seemed blocked."""
    with sharing("fork", brokers=1) as (simulation, start):
        consumer = simulation.consumer("orders") if kind == "consumer" else start()
        made_in, consumer._core._pid = consumer._core._pid, -1
        assert consumer.health().not_alive == (
            "this process is a fork of the one that created the consumer",
        )
        consumer._core._pid = made_in


@PROTOCOLS
def test_a_member_that_reads_is_alive_and_ready(options: dict[str, Any]) -> None:
    with Simulation("reads") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 10)
        consumer = simulation.consumer(
            "orders", group_id="readers", auto_offset_reset="earliest", client_id="one", **options
        )
        before = consumer.health()
        assert before.alive
        assert before.not_ready in {
            ("this consumer is not a member of the group 'readers' yet",),
            ("the coordinator of the group 'readers' is not known",),
        }
        ages = {before.poll_ms, before.heartbeat_ms, before.fetch_ms, before.commit_ms}
        assert ages == {None}
        while not consumer.poll(1_000):
            pass
        consumer.commit()
        simulation.sleep(2_000)
        health = consumer.health()
        assert health.alive
        assert health.ready
        assert health.client_id == "one"
        assert health.member_id
        assert health.generation_id > 0
        assert health.rebalance_ms is None
        assert 2_000 <= (health.poll_ms or 0) < 3_000
        assert 2_000 <= (health.commit_ms or 0) < 3_000
        assert health.fetch_ms is not None
        assert health.heartbeat_ms is not None
        partition = health.partitions[TP]
        assert (partition.position, partition.lag) == (10, 0)
        assert partition.stuck is None
        assert health.troubles == ()
        assert health.requests_in_flight > 0


def test_an_outage_names_the_broker_and_the_partition() -> None:
    with Simulation("outage") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 10)
        consumer = simulation.consumer("orders", auto_offset_reset="earliest")
        assert consumer.poll(5_000)
        simulation.cluster.stop(1)
        consumer.poll(5_000)
        health = consumer.health()
        assert health.alive
        assert any(
            "broker 1" in trouble or "has been unusable" in trouble for trouble in health.troubles
        )
        simulation.cluster.start(1)
        consumer.poll(20_000)
        assert consumer.health().troubles == ()


def test_a_busy_application_is_named() -> None:
    with Simulation("busy") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 10)
        consumer = simulation.consumer(
            "orders",
            group_id="readers",
            auto_offset_reset="earliest",
            max_poll_records=1,
            max_poll_interval_ms=60_000,
        )
        while not consumer.poll(1_000):
            pass
        simulation.sleep(5_000)
        assert consumer.health().alive
        produce(simulation, TP, 10)
        simulation.sleep(5_000)
        assert consumer.health().partitions[TP].stuck == "its records wait for poll()"
        simulation.sleep(60_000)
        [reason] = consumer.health().not_alive
        assert reason.startswith("poll() was not called for 70")


@pytest.mark.parametrize("way", ["paused", "leaderless"])
def test_a_partition_that_hands_out_nothing_says_why(way: str) -> None:
    with Simulation("stuck") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 10)
        consumer = simulation.consumer("orders", auto_offset_reset="earliest", max_poll_records=1)
        assert consumer.poll(5_000)
        if way == "paused":
            consumer.pause(TP)
            expected = "the application has paused it"
        else:
            simulation.cluster.stop(1)
            consumer.poll(5_000)
            while consumer.poll(100):
                pass
            expected = "its leader, broker 1, cannot be used"
        consumer.poll(500)
        health = consumer.health().partitions[TP]
        assert health.paused == (way == "paused")
        if way == "paused":
            assert health.stuck == expected
        else:
            assert health.lag == 0 or health.stuck == expected


def test_a_fenced_static_member_is_not_alive() -> None:
    with Simulation("fenced") as simulation:
        create_topic(simulation, "orders", 1)
        static = {"group_id": "readers", "group_instance_id": "one"}
        first = simulation.consumer("orders", **static)
        while not first.assignment():
            first.poll(500)
        second = simulation.consumer("orders", **static)
        for _ in range(10):
            second.poll(500)
        with pytest.raises(FencedInstanceIdError):
            first.poll(5_000)
        [reason] = first.health().not_alive
        assert "has taken over group_instance_id='one'" in reason


def test_a_closed_consumer_is_not_alive() -> None:
    with Simulation("closed") as simulation:
        consumer = simulation.consumer()
        assert consumer.health().not_ready == (
            "there is no subscription: call subscribe() or assign()",
        )
        consumer.close()
        assert consumer.health().not_alive == ("the consumer has been closed",)
        assert not consumer.health().ready


@PROTOCOLS
def test_a_rebalance_in_progress_is_shown(options: dict[str, Any]) -> None:
    seen: list[int | None] = []
    with Simulation("rebalance") as simulation:
        create_topic(simulation, "orders", 2)

        class Listener:
            def on_partitions_assigned(self, _assigned: set[TopicPartition]) -> None:
                simulation.sleep(3_000)
                seen.append(consumer.health().rebalance_ms)

            def on_partitions_revoked(self, _revoked: set[TopicPartition]) -> None: ...

        consumer = simulation.consumer(group_id="readers", **options)
        consumer.subscribe(["orders"], listener=Listener())
        while not seen:
            consumer.poll(1_000)
        consumer.poll(1_000)
        assert seen[0] is not None
        assert seen[0] >= 3_000
        assert consumer.health().rebalance_ms is None


@PROTOCOLS
def test_a_slow_handler_is_a_trouble_before_the_member_leaves(options: dict[str, Any]) -> None:
    with Simulation("slow handler") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(
            "orders", group_id="readers", max_poll_interval_ms=60_000, **options
        )
        while not consumer.assignment():
            consumer.poll(1_000)
        consumer.poll(0)
        simulation.sleep(40_000)
        assert consumer.health().troubles == ()
        simulation.sleep(8_000)
        [trouble] = consumer.health().troubles
        assert trouble.startswith(
            "poll() was not called for 48.0 s, 80% of max_poll_interval_ms=60000; after that, this "
            "consumer leaves the group 'readers': reduce max_poll_records"
        )
        assert consumer.health().ready
        consumer.poll(0)
        assert consumer.health().handler_ms == 48_000
        assert consumer.health().troubles == (trouble,)  # the next one may take longer
        consumer.poll(0)
        assert consumer.health().troubles == ()


@PROTOCOLS
def test_a_member_without_partitions_says_so(options: dict[str, Any]) -> None:
    with Simulation("spare member") as simulation:
        create_topic(simulation, "orders", 1)
        members = [simulation.consumer("orders", group_id="readers", **options) for _ in range(2)]
        for _ in range(30):
            for member in members:
                member.poll(500)
        troubles = [member.health().troubles for member in members]
        assert sorted(map(len, troubles)) == [0, 1]
        [[trouble]] = filter(None, troubles)
        assert trouble.startswith("this member of the group 'readers' has no partitions")
        assert all(member.health().ready for member in members)


def test_a_closed_consumer_is_not_connected() -> None:
    with Simulation("closed") as simulation:
        consumer = simulation.consumer("orders")
        consumer.poll(1_000)
        assert consumer.bootstrap_connected()
        consumer.close()
        assert not consumer.bootstrap_connected()


def test_topics_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a change in between would let one part of the health contradict the other."""
    with Simulation("once") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", group_id="readers")
        consumer.poll(1_000)
        troubles, calls = consumer._core.engine.topic_troubles, []
        looked_up = type(troubles).of

        def of(self: Any, *arguments: Any) -> Any:
            calls.append(arguments)
            return looked_up(self, *arguments)

        monkeypatch.setattr(type(troubles), "of", of)
        assert consumer.health().alive
        assert len(calls) == 1


def refuse(simulation: Simulation, api: Any, code: int) -> None:
    """Let the brokers answer all further requests of a kind with an error, each as a whole."""

    def refused(call: Any) -> Any:
        answer = call.default()
        if answer is not None:
            answer.error_code = code
        return answer

    simulation.cluster.script(api, *[refused] * 10_000)


def refuse_fetches(simulation: Simulation, response: Any, code: int, *, whole: bool) -> None:
    """Let a broker refuse all further fetches, or partition 0 in them."""
    shares = response is ShareFetchResponse
    entry = response.ShareFetchableTopicResponse if shares else response.FetchableTopicResponse
    refused = entry.PartitionData(
        partition_index=0,
        error_code=code,
        current_leader=entry.PartitionData.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
    )
    topic_id = simulation.cluster.topics["orders"].topic_id
    name = {} if shares else {"topic": "orders"}
    topics = [] if whole else [entry(topic_id=topic_id, partitions=[refused], **name)]
    answer = response(error_code=code if whole else 0, responses=topics)
    simulation.cluster.script(response, *[answer] * 10_000)


def polled_for_a_minute(simulation: Simulation, consumer: Any) -> int:
    """Poll, also after errors, and return the time that it took in ms."""
    begin_ms = simulation.clock.now_ms()
    while simulation.clock.now_ms() < begin_ms + 60_000:
        with suppress(KafkaError):
            consumer.poll(500)
    return simulation.clock.now_ms() - begin_ms


@PROTOCOLS
def test_only_heartbeats_that_are_accepted_count(options: dict[str, Any]) -> None:
    with Simulation("heartbeats") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", group_id="readers", **options)
        polled_for_a_minute(simulation, consumer)
        assert (consumer.health().heartbeat_ms or 0) < 6_000
        for api in (ConsumerGroupHeartbeatRequest, HeartbeatRequest):
            refuse(simulation, api, CoordinatorLoadInProgressError.errno)
        took_ms = polled_for_a_minute(simulation, consumer)
        health = consumer.health()
        assert took_ms <= (health.heartbeat_ms or 0) < took_ms + 6_000
        assert not health.ready
        values = consumer.metrics()["consumer-coordinator-metrics"]
        assert values["last-heartbeat-accepted-seconds-ago"] * 1_000 == health.heartbeat_ms
        assert values["last-heartbeat-seconds-ago"] < 3


def test_only_heartbeats_of_a_share_group_that_are_accepted_count() -> None:
    with sharing("heartbeats") as (simulation, start):
        consumer = start()
        take(consumer, 3)
        consumer.commit()
        refuse(simulation, ShareGroupHeartbeatRequest, CoordinatorLoadInProgressError.errno)
        took_ms = polled_for_a_minute(simulation, consumer)
        health = consumer.health()
        assert took_ms <= (health.heartbeat_ms or 0) < took_ms + 6_000
        assert not health.ready
        simulation.cluster._scripts._handlers.clear()


@pytest.mark.parametrize("whole", [True, False])
def test_only_fetches_that_are_accepted_count(*, whole: bool) -> None:
    with Simulation("fetches") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 3)
        consumer = simulation.consumer("orders", auto_offset_reset="earliest")
        assert consumer.poll(5_000)
        refuse_fetches(simulation, FetchResponse, KafkaStorageError.errno, whole=whole)
        took_ms = polled_for_a_minute(simulation, consumer)
        assert took_ms - 1_000 <= (consumer.health().fetch_ms or 0) < took_ms + 1_000
        assert not consumer.health().ready


@pytest.mark.parametrize("whole", [True, False])
def test_only_fetches_of_a_share_group_that_are_accepted_count(*, whole: bool) -> None:
    with sharing("fetches", brokers=1) as (simulation, start):
        consumer = start()
        refuse_fetches(simulation, ShareFetchResponse, KafkaStorageError.errno, whole=whole)
        polled_for_a_minute(simulation, consumer)
        assert consumer.health().fetch_ms is None
        assert not consumer.health().ready
        simulation.cluster._scripts._handlers.clear()


def test_a_fetch_counts_if_one_partition_of_several_is_refused() -> None:
    with Simulation("some partitions", brokers=1) as simulation:
        create_topic(simulation, "orders", 2)
        consumer = simulation.consumer("orders", auto_offset_reset="earliest")
        consumer.poll(5_000)
        refuse_fetches(simulation, FetchResponse, KafkaStorageError.errno, whole=False)
        polled_for_a_minute(simulation, consumer)
        assert (consumer.health().fetch_ms or 0) < 3_000


def test_a_member_that_others_wait_for_in_a_rebalance_is_ready() -> None:
    """The coordinator keeps a member that it asks to join again (as Java's `Heartbeat` knows)."""
    seen: list[Any] = []
    with Simulation("slow listener") as simulation:
        create_topic(simulation, "orders", 2)

        class Listener:
            def on_partitions_assigned(self, _assigned: set[TopicPartition]) -> None: ...

            def on_partitions_revoked(self, _revoked: set[TopicPartition]) -> None:
                simulation.sleep(25_000)
                seen.append(first.health())

        first = simulation.consumer(group_id="readers")
        first.subscribe(["orders"], listener=Listener())
        while not first.assignment():
            first.poll(500)
        second = simulation.consumer("orders", group_id="readers")
        second.poll(100)
        while not seen:
            first.poll(500)
        assert seen[0].not_ready == ()
        assert seen[0].heartbeat_ms < 6_000
        assert seen[0].rebalance_ms >= 25_000


@PROTOCOLS
def test_a_partition_with_a_leader_whose_position_is_looked_up_has_a_leader(
    options: dict[str, Any],
) -> None:
    with Simulation("unstable") as simulation:
        create_topic(simulation, "orders", 1)

        def unstable(call: Any) -> Any:
            answer = call.default()
            for group in answer.groups or [answer]:
                for each in (partition for entry in group.topics for partition in entry.partitions):
                    each.error_code = 88  # UNSTABLE_OFFSET_COMMIT
            return answer

        simulation.cluster.script(OffsetFetchRequest, *[unstable] * 1_000)
        consumer = simulation.consumer("orders", group_id="readers", **options)
        while not consumer.assignment():
            consumer.poll(500)
        consumer.poll(5_000)
        assert consumer.health().partitions[TP].stuck == "its committed offset is being looked up"
        assert consumer.health().not_ready == ()


def test_a_partition_that_does_not_exist_is_not_said_to_lack_a_leader() -> None:
    with Simulation("no such partition") as simulation:
        simulation.cluster.create_topic("orders", 2)
        missing, absent = TopicPartition("orders", 7), TopicPartition("bills", 0)
        consumer = simulation.consumer()
        consumer.assign([TopicPartition("orders", 0), missing, absent])
        for _ in range(3):
            consumer.poll(1_000)
        health = consumer.health()
        assert health.partitions[missing].stuck == "it does not exist"
        assert (health.partitions[absent].stuck or "").startswith("its topic does not exist")
        assert "assigned partitions that cannot be read: 1; it does not exist" in health.not_ready
        assert "leader" not in " ".join((*health.not_ready, *health.troubles))
