"""Runs the command `tandem-kafka` in this process, on a simulated cluster with its own time."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tandem_kafka.cli.__main__ import main
from tandem_kafka.cli.environment import Environment
from tandem_kafka.testing.laboratory import SimulatedKafka

LOGGERS = ("tandem_kafka", "kafka")


@dataclass
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def cluster() -> Iterator[SimulatedKafka]:
    kafka = SimulatedKafka()
    kafka.create_topic("orders", 2)
    yield kafka
    kafka.close()


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """The command sets a signal handler and the levels of loggers, as a process may."""
    handler = signal.getsignal(signal.SIGTERM)
    kept = [(each, each.handlers[:], each.level, each.propagate) for each in _loggers()]
    yield
    signal.signal(signal.SIGTERM, handler)
    for logger, handlers, level, propagate in kept:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def _loggers() -> list[logging.Logger]:
    return [logging.getLogger(name) for name in LOGGERS]


@pytest.fixture
def environment(cluster: SimulatedKafka) -> Environment:
    simulation = cluster.simulation
    return Environment(
        variables={"TANDEM_KAFKA_BROKERS": simulation.cluster.bootstrap(), "HOME": "/nowhere"},
        consumer=simulation.consumer,
        clock=simulation.clock,
        sleep_ms=lambda duration_ms: simulation.sleep(round(duration_ms)),
    )


@pytest.fixture
def run(environment: Environment, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str, **replaced: Any) -> Ran:
        changed = Environment(**{**vars(environment), **replaced})
        capsys.readouterr()
        code = main(arguments, changed)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run_command
