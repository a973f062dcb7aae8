"""The command `tandem-kafka` on a simulated cluster with its own time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tandem_kafka.cli.environment import Environment
from tandem_kafka.testing.laboratory import SimulatedKafka
from tests.commands import Run, runner


@pytest.fixture
def cluster() -> Iterator[SimulatedKafka]:
    """A cluster with the topic `orders`, of two partitions."""
    kafka = SimulatedKafka()
    kafka.create_topic("orders", 2)
    yield kafka
    kafka.close()


@pytest.fixture
def run(cluster: SimulatedKafka, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a command on the simulated cluster."""
    simulation = cluster.simulation
    environment = Environment(
        variables={"TANDEM_KAFKA_BROKERS": simulation.cluster.bootstrap(), "HOME": "/nowhere"},
        consumer=simulation.consumer,
        clock=simulation.clock,
        sleep_ms=lambda duration_ms: simulation.sleep(round(duration_ms)),
    )
    with runner(environment, capsys) as run_command:
        yield run_command
