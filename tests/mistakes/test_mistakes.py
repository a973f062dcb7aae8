"""Each common mistake has a message that names the thing, says why, and says what to do."""

from __future__ import annotations

import logging

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation
from tests.mistakes.table import MISTAKES, ORDERS, Mistake


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake(mistake: Mistake, caplog: pytest.LogCaptureFixture) -> None:
    said = _said(mistake, caplog)
    missing = [words for words in (mistake.thing, mistake.why, mistake.cure) if words not in said]
    assert not missing, said


def _said(mistake: Mistake, caplog: pytest.LogCaptureFixture) -> str:
    """Return the error, or else what is logged."""
    simulation = Simulation("mistake")
    simulation.cluster.create_topic(ORDERS, 2)
    simulation.cluster.produce(TopicPartition(ORDERS, 0), b"1", b"2", b"3")
    try:
        with caplog.at_level(logging.WARNING, "tandem_kafka"):
            mistake.make(simulation)
    except Exception as error:  # noqa: BLE001 - of any kind
        return str(error)
    finally:
        for consumer in simulation.consumers:
            consumer.close()
    return "\n".join(caplog.messages)
