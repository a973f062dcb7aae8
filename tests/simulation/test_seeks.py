"""Seeks, pauses and new assignments: stale records are never handed out."""

from __future__ import annotations

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.testing import Simulation
from tests.simulation.ledger import Ledger, produce, topic
from tests.tier import seeds


def act(simulation: Simulation, ledger: Ledger, tps: list[TopicPartition]) -> None:
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
        tps = topic(simulation, "orders", 3)
        for tp in tps:
            for _ in range(8):
                produce(simulation, tp, 3)
        simulation.network.conditions.loss = simulation.random.choice([0.0, 0.02])
        consumer = simulation.consumer(
            auto_offset_reset="earliest", bootstrap_timeout_ms=0, reconnect_backoff_max_ms=1_000
        )
        consumer.assign(tps)
        ledger = Ledger(simulation, consumer, tps)
        for _ in range(40):
            act(simulation, ledger, tps)
        simulation.network.conditions.calm()
        consumer.resume(*tps)
        ledger.read_all()
