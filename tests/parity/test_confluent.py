"""The same programs with `confluent_kafka` and with `tandem_kafka.confluent`, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

import tandem_kafka.confluent
from tandem_kafka_testing.kafka import RealKafka
from tests.parity import (
    confluent_classes,
    confluent_groups,
    confluent_programs,
    confluent_security,
)
from tests.parity.confluent_world import World
from tests.tier import sample

PROGRAMS = (
    *confluent_programs.PROGRAMS,
    *confluent_classes.PROGRAMS,
    *confluent_groups.PROGRAMS,
    *confluent_security.PROGRAMS,
)


def run(program: Callable[[World], Any], api: Any, kafka: RealKafka) -> Any:
    """Run a program; names that differ between runs are replaced."""
    world = World(api, kafka)
    try:
        return alike(program(world), {world.topic: "topic", world.group: "group"})
    finally:
        world.close()


def alike(result: Any, names: dict[str, str]) -> Any:
    if isinstance(result, str):
        for name, word in names.items():
            result = result.replace(name, word)
        return result
    if isinstance(result, dict):
        return {alike(key, names): alike(value, names) for key, value in result.items()}
    if type(result) in (list, tuple, set):
        return type(result)(alike(each, names) for each in result)
    return result


@pytest.mark.parametrize("program", sample(PROGRAMS, 3), ids=lambda program: program.__name__)
def test_a_program_gets_the_same_results(program: Callable[[World], Any], kafka: RealKafka) -> None:
    theirs = run(program, confluent_kafka, kafka)
    ours = run(program, tandem_kafka.confluent, kafka)
    assert ours == theirs, f"ours:   {ours}\ntheirs: {theirs}"
