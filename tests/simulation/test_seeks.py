"""Seeks, pauses and new assignments: stale records are never handed out."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.wire.messages import ListOffsetsRequest, OffsetFetchRequest
from tandem_kafka_testing import Call, Simulation
from tests.histories.ledger import SimulatedLedger
from tests.scenarios.numbered_records import create_topic, produce
from tests.tier import seeds


def no_offset(call: Call) -> Any:
    """Respond to ListOffsets without an offset, as no broker should."""
    response = call.default()
    for each in response.topics:
        for partition in each.partitions:
            partition.offset = partition.timestamp = -1
    return response


@pytest.mark.parametrize("begin", ["assign", "subscribe", "seek"])
def test_a_response_without_an_offset_does_not_skip_to_the_end(begin: str) -> None:
    with Simulation("no offset") as simulation:
        (tp,) = create_topic(simulation, "orders", 1)
        produce(simulation, tp, 10)
        simulation.cluster.script(ListOffsetsRequest, no_offset)
        policy = "latest" if begin == "seek" else "earliest"
        consumer = simulation.consumer(auto_offset_reset=policy, group_id="readers")
        if begin == "subscribe":
            consumer.subscribe(["orders"])
        else:
            consumer.assign([tp])
        if begin == "seek":
            consumer.seek_to_beginning(tp)
        found = [each.offset for _ in range(20) for each in consumer.poll(500).get(tp, ())]
        assert found == list(range(10))


def unstable(call: Call) -> Any:
    """Respond to OffsetFetch with an error for partition 1."""
    response = call.default()
    for group in response.groups:
        for each in group.topics:
            for partition in each.partitions:
                if partition.partition_index == 1:
                    partition.error_code = 88  # UNSTABLE_OFFSET_COMMIT
    return response


def test_an_error_of_one_committed_offset_does_not_hold_up_other_partitions() -> None:
    with Simulation("one committed offset") as simulation:
        tps = create_topic(simulation, "orders", 2)
        for tp in tps:
            produce(simulation, tp, 3)
        simulation.cluster.script(OffsetFetchRequest, *[unstable] * 5)
        consumer = simulation.consumer(auto_offset_reset="earliest", group_id="readers")
        consumer.assign(tps)
        begin_ms = simulation.clock.now_ms()
        read_ms = {}
        while len(read_ms) < 2:
            for tp in consumer.poll(50):
                read_ms.setdefault(tp, simulation.clock.now_ms() - begin_ms)
        assert read_ms[tps[0]] < 1_000 < read_ms[tps[1]]


def act(simulation: Simulation, ledger: SimulatedLedger, tps: list[TopicPartition]) -> None:
    """Do one random action with the positions."""
    random, consumer = simulation.random, ledger.consumer
    tp = random.choice(tps)
    match random.randrange(6):
        case 0 | 1:
            offset = random.randrange(simulation.cluster.at(tp).log.end_offset)
            consumer.seek(tp, offset)
            ledger.next[tp] = offset
        case 2:
            consumer.seek_to_beginning(tp)
            ledger.next[tp] = 0
        case 3:
            consumer.assign([other for other in tps if other != tp])
            consumer.assign(tps)
            consumer.seek(tp, 5)
            ledger.next[tp] = 5
        case 4:
            produce(simulation, tp, 3)
        case _:
            (consumer.resume if tp in consumer.paused() else consumer.pause)(tp)
    ledger.poll(random.choice([0, 1, 7, 300]), random.choice([None, 1, 5]))
    simulation.sleep(random.choice([0, 1, 5, 300]))


@pytest.mark.behaviour(158)
@pytest.mark.parametrize("seed", seeds(15, 60))
def test_records_of_an_old_position_are_never_handed_out(seed: int) -> None:
    with Simulation(f"seeks {seed}", brokers=2) as simulation:
        tps = create_topic(simulation, "orders", 3)
        for tp in tps:
            for _ in range(8):
                produce(simulation, tp, 3)
        simulation.network.conditions.loss = simulation.random.choice([0.0, 0.02])
        consumer = simulation.consumer(
            auto_offset_reset="earliest", bootstrap_timeout_ms=0, reconnect_backoff_max_ms=1_000
        )
        consumer.assign(tps)
        ledger = SimulatedLedger(simulation, consumer, tps)
        for _ in range(40):
            act(simulation, ledger, tps)
        simulation.network.conditions.calm()
        consumer.resume(*tps)
        ledger.read_all()
