"""Calls end on time in simulated time, and nothing spins."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import (
    ConsumerClosedError,
    KafkaTimeoutError,
    WakeupError,
)
from tandem_kafka.wire.messages import (
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tandem_kafka_testing import DROP, Simulation
from tests.histories.ledger import LATE_MS, SimulatedLedger
from tests.scenarios.numbered_records import create_topic, produce
from tests.tier import seeds

TP = TopicPartition("orders", 0)
HOUR_MS = 3_600_000


class Watch:
    """Measures simulated time."""

    def __init__(self, simulation: Simulation) -> None:
        self._clock = simulation.clock
        self._began_ms = simulation.clock.now_ms()

    def took(self, expected_ms: int, late_ms: int = LATE_MS) -> bool:
        took_ms = self._clock.now_ms() - self._began_ms
        return expected_ms <= took_ms <= expected_ms + late_ms


def silence(simulation: Simulation) -> None:
    """Lose all packets."""
    for broker in simulation.cluster.brokers.values():
        simulation.network.silent.add(broker.address)


# --- timeouts ---------------------------------------------------------------------------------


@pytest.mark.behaviour(34)
def test_position_of_an_unknown_partition_times_out() -> None:
    with Simulation() as simulation:
        consumer = simulation.consumer()
        consumer.assign([TP])
        watch = Watch(simulation)
        assert consumer.position(TP, timeout_ms=3_000) is None
        assert watch.took(3_000)


@pytest.mark.behaviour(35)
@pytest.mark.design("003", "Timeout Policy")
def test_calls_with_timeout_0_end_at_once() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer()
        for call in (
            lambda: consumer.topics(timeout_ms=0),
            lambda: consumer.partitions_for_topic("unknown", timeout_ms=0),
        ):
            watch = Watch(simulation)
            with pytest.raises(KafkaTimeoutError):
                call()
            assert watch.took(0)
        watch = Watch(simulation)
        assert consumer.beginning_offsets([TP], timeout_ms=0) == {}
        assert consumer.end_offsets([TP], timeout_ms=0) == {}
        assert consumer.offsets_for_times({TP: 0}, timeout_ms=0) == {TP: None}
        assert watch.took(0)


@pytest.mark.behaviour(36)
def test_end_offsets_of_an_unknown_partition_time_out() -> None:
    with Simulation() as simulation:
        consumer = simulation.consumer()
        watch = Watch(simulation)
        with pytest.raises(KafkaTimeoutError):
            consumer.end_offsets([TP], timeout_ms=2_500)
        assert watch.took(2_500)


@pytest.mark.behaviour(37)
@pytest.mark.design("003", "Timeout Policy")
@pytest.mark.parametrize("api", [ListOffsetsRequest, OffsetFetchRequest, OffsetCommitRequest])
def test_a_call_without_a_response_ends_on_time(api: object) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 3)
        consumer = simulation.consumer(group_id="readers", enable_auto_commit=False)
        consumer.assign([TP])
        simulation.cluster.script(api, *[DROP] * 50)
        consumer.seek(TP, 2)
        calls = {
            ListOffsetsRequest: lambda: consumer.end_offsets([TP], timeout_ms=4_000),
            OffsetFetchRequest: lambda: consumer.committed(TP, timeout_ms=4_000),
            OffsetCommitRequest: lambda: consumer.commit(timeout_ms=4_000),
        }
        watch = Watch(simulation)
        with pytest.raises(KafkaTimeoutError):
            calls[api]()
        assert watch.took(4_000)


@pytest.mark.design("003", "CommitSync, CommitAsync")
def test_a_commit_is_sent_at_once() -> None:
    """Without a wakeup, the network thread would sleep for up to half a second."""
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(group_id="readers", enable_auto_commit=False)
        consumer.assign([TP])
        consumer.seek(TP, 0)
        consumer.commit()
        for offset in range(1, 20):
            consumer.seek(TP, offset)
            watch = Watch(simulation)
            consumer.commit()
            assert watch.took(0, 30)
            assert simulation.cluster.committed("readers", TP) == offset


# --- wakeup ------------------------------------------------------------------------------------


@pytest.mark.behaviour(31)
@pytest.mark.parametrize("seed", seeds(8, 30))
def test_wakeup_that_races_with_records_loses_none(seed: int) -> None:
    with Simulation(seed) as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        ledger = SimulatedLedger(simulation, consumer, [TP])
        woken = 0
        for _ in range(20):
            when_ms = simulation.random.randrange(1, 30)
            simulation.after(when_ms, consumer.wakeup)
            simulation.after(
                when_ms + simulation.random.randrange(-1, 9), lambda: produce(simulation, TP, 1)
            )
            try:
                ledger.poll(50)
            except WakeupError:
                woken += 1
        assert woken
        simulation.sleep(50)
        with suppress(WakeupError):
            ledger.poll(0)
        ledger.read_all()


@pytest.mark.behaviour(32)
@pytest.mark.parametrize("call", ["commit", "committed", "position", "partitions", "topics"])
def test_wakeup_ends_the_calls_that_it_may_end(call: str) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(group_id="readers", enable_auto_commit=False)
        consumer.assign([TP])
        consumer.seek(TP, 0)
        silence(simulation)
        simulation.after(500, consumer.wakeup)
        watch = Watch(simulation)
        calls = {
            "commit": consumer.commit,
            "committed": lambda: consumer.committed(TP),
            "position": lambda: consumer.position(TP),
            "partitions": lambda: consumer.partitions_for_topic("other"),
            "topics": consumer.topics,
        }
        if call == "position":
            consumer.seek_to_end(TP)
        with pytest.raises(WakeupError):
            calls[call]()
        assert watch.took(500)
        simulation.network.silent.clear()


# --- close -------------------------------------------------------------------------------------


@pytest.mark.behaviour(106)
@pytest.mark.parametrize("how", ["down", "silent"])
@pytest.mark.parametrize("group", [None, "readers"])
def test_close_keeps_to_its_timeout_with_all_brokers_gone(how: str, group: str | None) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 3)
        consumer = simulation.consumer(group_id=group, auto_offset_reset="earliest")
        consumer.assign([TP])
        SimulatedLedger(simulation, consumer, [TP]).read_all()
        if how == "down":
            simulation.cluster.stop(1)
        else:
            silence(simulation)
        began_ms = simulation.clock.now_ms()
        consumer.close(timeout_ms=5_000)
        assert simulation.clock.now_ms() - began_ms <= 5_000 + 100
        with pytest.raises(ConsumerClosedError):
            consumer.poll(0)


@pytest.mark.behaviour(114)
def test_close_does_not_wait_for_a_parked_fetch() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(fetch_max_wait_ms=20_000, auto_offset_reset="earliest")
        consumer.assign([TP])
        consumer.poll(1_000)
        watch = Watch(simulation)
        consumer.close()
        assert watch.took(0, 100)


@pytest.mark.behaviour(113)
def test_close_ends_the_fetch_sessions() -> None:
    with Simulation() as simulation:
        tps = create_topic(simulation, "orders", 2)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign(tps)
        consumer.poll(1_000)
        assert len(simulation.cluster.brokers[1].sessions) == 2
        consumer.close()
        simulation.sleep(100)
        assert len(simulation.cluster.brokers[1].sessions) == 0


@pytest.mark.behaviour(116)
@pytest.mark.design("003", "CommitSync, CommitAsync")
def test_close_ends_requests_in_flight() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(group_id="readers", enable_auto_commit=False)
        consumer.assign([TP])
        consumer.seek(TP, 1)
        simulation.cluster.stop(1)
        errors_seen: list[object] = []
        future = consumer.commit_async(callback=lambda _offsets, error: errors_seen.append(error))
        consumer.close(timeout_ms=3_000)
        assert future.is_done
        assert len(errors_seen) == 1
        assert isinstance(errors_seen[0], Exception)


# --- nothing spins -----------------------------------------------------------------------------


@pytest.mark.behaviour(23, 25)
@pytest.mark.parametrize("how", ["down", "silent"])
@pytest.mark.parametrize("backoff_ms", [0, 100])
def test_an_hour_without_a_broker_takes_few_iterations(how: str, backoff_ms: int) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 3)
        consumer = simulation.consumer(
            group_id="readers",
            auto_offset_reset="earliest",
            retry_backoff_ms=backoff_ms,
            reconnect_backoff_ms=backoff_ms,
        )
        consumer.assign([TP])
        ledger = SimulatedLedger(simulation, consumer, [TP])
        ledger.read_all()
        if how == "down":
            simulation.cluster.stop(1)
        else:
            silence(simulation)
        before = simulation.drivers[0].iterations
        until_ms = simulation.clock.now_ms() + HOUR_MS
        while simulation.clock.now_ms() < until_ms:
            consumer.poll(60_000)
        iterations = simulation.drivers[0].iterations - before
        assert iterations < HOUR_MS / 100, f"{iterations} iterations in an hour"
        simulation.network.silent.clear()
        simulation.cluster.start(1)
        produce(simulation, TP, 1)
        ledger.read_all()


@pytest.mark.behaviour(23)
def test_joining_an_unreachable_group_takes_few_iterations() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", group_id="readers")
        simulation.cluster.stop(1)
        before = simulation.drivers[0].iterations
        assert not consumer.poll(HOUR_MS)
        assert simulation.drivers[0].iterations - before < HOUR_MS / 100


@pytest.mark.behaviour(24, 26)
@pytest.mark.parametrize("paused", [False, True])
def test_an_idle_consumer_is_quiet(paused: bool) -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(group_id="readers", auto_offset_reset="earliest")
        consumer.assign([TP])
        consumer.poll(1_000)
        if paused:
            consumer.pause(TP)
        before = simulation.drivers[0].iterations
        watch = Watch(simulation)
        assert not consumer.poll(60_000)
        assert watch.took(60_000)
        per_second = (simulation.drivers[0].iterations - before) / 60
        assert per_second < 12


def test_waiting_for_a_missing_topic_is_quiet() -> None:
    with Simulation() as simulation:
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        before = simulation.drivers[0].iterations
        assert not consumer.poll(600_000)
        assert (simulation.drivers[0].iterations - before) / 600 < 12
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 1)
        assert consumer.poll(5_000).count == 1


def test_many_api_calls_without_metadata_do_not_multiply_requests() -> None:
    with Simulation() as simulation:
        consumer = simulation.consumer()
        broker = simulation.cluster.brokers[1]
        before = broker.requests["MetadataRequest"]
        with pytest.raises(KafkaTimeoutError):
            consumer.beginning_offsets([TopicPartition("nowhere", n) for n in range(50)], 10_000)
        assert broker.requests[MetadataRequest.name] - before < 30
