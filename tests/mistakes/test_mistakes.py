"""Each common mistake has a message that names the thing, says why, and says what to do."""

from __future__ import annotations

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation
from tests.mistakes.mistake import Mistake
from tests.mistakes.table import MISTAKES, ORDERS


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake(mistake: Mistake, caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation("mistake")
    simulation.cluster.create_topic(ORDERS, 2)
    simulation.cluster.produce(TopicPartition(ORDERS, 0), b"1", b"2", b"3")
    try:
        mistake.check(simulation, caplog)
    finally:
        for consumer in simulation.consumers:
            consumer.close()
