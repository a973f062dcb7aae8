"""Fixtures for those who test code that consumes from Kafka; pytest loads them by itself.

Nothing is imported before a fixture is asked for: a test run that needs none does not pay.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tandem_kafka.testing.laboratory import SimulatedKafka
    from tandem_kafka.testing.served import ServedKafka

__all__ = ["kafka_broker", "kafka_cluster"]


@pytest.fixture
def kafka_cluster() -> Iterator[SimulatedKafka]:
    """A simulated cluster: no threads, no sockets, no waiting, the same every time."""
    from tandem_kafka.testing.laboratory import SimulatedKafka

    kafka = SimulatedKafka()
    yield kafka
    kafka.close()


@pytest.fixture(scope="session")
def kafka_broker() -> ServedKafka:
    """A cluster over TCP; the one of TANDEM_BOOTSTRAP_SERVERS, or one that is built in."""
    pytest.importorskip("confluent_kafka", reason="pip install 'tandem-kafka[testing]'")
    from tandem_kafka.testing.served import BOOTSTRAP_VARIABLE, ServedKafka

    return ServedKafka(os.environ.get(BOOTSTRAP_VARIABLE) or None)
