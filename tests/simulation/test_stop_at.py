"""`stop_at()`: a consumer at its stop sends nothing; Spark's workers keep such consumers."""

from __future__ import annotations

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)
#: Metadata is refreshed after five minutes; until then, no request is due.
QUIET_MS = 4 * 60_000


def requests(simulation: Simulation) -> dict[tuple[int, str], int]:
    """Return the number of requests of each kind, by broker."""
    brokers = simulation.cluster.brokers
    return {(node, kind): n for node in brokers for kind, n in brokers[node].requests.items()}


@pytest.mark.parametrize("behind", [0, 50])
def test_at_its_stop_a_consumer_sends_nothing(behind: int) -> None:
    """Neither at the end of the log nor with records behind its stop."""
    with Simulation(f"at its stop, {behind} behind", brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        produce(simulation, TP, 20 + behind)
        consumer = simulation.consumer(auto_offset_reset="none", enable_auto_commit=False)
        consumer.assign([TP])
        consumer.stop_at(TP, 20)
        consumer.seek(TP, 0)
        read = 0
        while consumer.position(TP) < 20:
            read += consumer.poll(1_000).count
        assert read >= 20
        before = requests(simulation)
        assert sum(n for (_, kind), n in before.items() if kind == "FetchRequest") >= 1
        simulation.sleep(QUIET_MS // 2)
        produce(simulation, TP, 5)
        simulation.sleep(QUIET_MS // 2)
        assert requests(simulation) == before
        consumer.stop_at(TP, 25 + behind)
        while consumer.position(TP) < 25 + behind:
            read += consumer.poll(1_000).count
        assert read == 25 + behind
