"""The events that poll() sends to the network thread: only the necessary ones."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.consumer.reading import poller
from tandem_kafka.errors import RebalanceCallbackError, TopicAuthorizationFailedError
from tandem_kafka.events.application import Poll
from tandem_kafka.wire.messages import ListOffsetsRequest, ListOffsetsResponse
from tandem_kafka_testing import DROP, Simulation
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)
OPTIONS: dict[str, Any] = {"group_id": "readers", "auto_offset_reset": "earliest"}
MINUTE_MS = 60_000


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Poll]:
    """Every event that a poll() sends."""
    events: list[Poll] = []

    def made(**fields: Any) -> Poll:
        events.append(Poll(**fields))
        return events[-1]

    monkeypatch.setattr(poller, "Poll", made)
    return events


def poll_for(simulation: Simulation, duration_ms: int, *consumers: KafkaConsumer) -> None:
    until_ms = simulation.clock.now_ms() + duration_ms
    while simulation.clock.now_ms() < until_ms:
        for consumer in consumers:
            consumer.poll(100)


def refused(call: Any) -> ListOffsetsResponse:
    answer = call.default()
    answer.topics[0].partitions[0].error_code = TopicAuthorizationFailedError.errno
    return answer


def refused_late(call: Any) -> ListOffsetsResponse:
    call.delay_ms = 2_000
    return refused(call)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_with_their_full_assignment_need_no_poll_events(
    sent: list[Poll], protocol: str
) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        reader, idle = (
            simulation.consumer("orders", **OPTIONS, group_protocol=protocol) for _ in range(2)
        )
        poll_for(simulation, 15_000, reader, idle)
        assert sorted([len(reader.assignment()), len(idle.assignment())]) == [0, 1]
        sent.clear()
        for _ in range(3):
            produce(simulation, TP, 10)
            poll_for(simulation, MINUTE_MS, reader, idle)
        assert not sent


def test_a_slow_lookup_is_requested_once(sent: list[Poll]) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        simulation.cluster.script(ListOffsetsRequest, lambda _: DROP)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        poll_for(simulation, 20_000, consumer)
        assert consumer._core.engine.subscription.without_position()
        assert len(sent) <= 3


@pytest.mark.behaviour(87)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("interval_ms", "timeout_ms"), [(7_000, 50), (7_000, 3 * MINUTE_MS), (500, 3 * MINUTE_MS)]
)
def test_polling_keeps_the_membership_without_events(
    protocol: str, interval_ms: int, timeout_ms: int
) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        options = {**OPTIONS, "group_protocol": protocol, "max_poll_interval_ms": interval_ms}
        consumer = simulation.consumer("orders", **options)
        poll_for(simulation, 10_000, consumer)
        before = consumer.group_metadata()
        until_ms = simulation.clock.now_ms() + 3 * MINUTE_MS
        while simulation.clock.now_ms() < until_ms:
            assert not consumer.poll(timeout_ms)
            simulation.sleep(interval_ms // 3)
        assert consumer.group_metadata() == before
        assert consumer.assignment() == {TP}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_exceeded_max_poll_interval_rejoins_with_the_next_poll(protocol: str) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        options = {**OPTIONS, "group_protocol": protocol, "max_poll_interval_ms": 7_000}
        consumer = simulation.consumer("orders", **options)
        for _ in range(2):
            poll_for(simulation, 10_000, consumer)
            assert consumer.assignment() == {TP}
            simulation.sleep(7_500)
            assert consumer.group_metadata().state == "<stable>"
            simulation.sleep(2_000)
            assert consumer.group_metadata().state == "<unjoined>"


def test_a_listener_that_raised_for_an_empty_set_is_called_again() -> None:
    class FailingListener:
        calls = 0

        def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
            assert not partitions
            self.calls += 1
            if self.calls < 4:
                raise ValueError("not yet")

        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            """No partitions are revoked."""

    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        holder = simulation.consumer("orders", **OPTIONS)
        poll_for(simulation, 5_000, holder)
        listener = FailingListener()
        # The range assignor leaves the only partition to the member that comes first by name.
        other = simulation.consumer(**OPTIONS)
        other.subscribe(["orders"], listener=listener)
        raised = 0
        for _ in range(40):
            holder.poll(50)
            try:
                other.poll(50)
            except RebalanceCallbackError:
                raised += 1
        assert (raised, listener.calls) == (3, 4)


def test_an_error_is_raised_by_each_poll_while_it_persists() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        for _ in range(3):
            simulation.cluster.script(ListOffsetsRequest, refused)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        for _ in range(3):
            with pytest.raises(TopicAuthorizationFailedError):
                consumer.poll(5_000)
        produce(simulation, TP, 1)
        assert consumer.poll(5_000)


def test_a_failed_position_lookup_is_retried_by_the_next_poll() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        simulation.cluster.script(ListOffsetsRequest, refused_late)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        poll_for(simulation, 1_000, consumer)  # all listener calls have happened by then
        with pytest.raises(TopicAuthorizationFailedError):
            consumer.position(TP, timeout_ms=5_000)
        produce(simulation, TP, 1)
        assert consumer.poll(5_000)


def test_a_subscription_after_an_assignment_joins_the_group() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(**OPTIONS)
        consumer.assign([TP])
        poll_for(simulation, 5_000, consumer)
        consumer.unsubscribe()
        consumer.subscribe(["nothing-yet"])
        poll_for(simulation, 10_000, consumer)
        assert consumer.group_metadata().generation_id > 0
