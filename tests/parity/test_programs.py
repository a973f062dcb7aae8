"""The same programs with kafka-python's consumer and with ours, on a real broker."""

from __future__ import annotations

import contextlib
import gc
import re
import warnings
from collections.abc import Callable
from typing import Any

import kafka as kafka_python
import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka_testing.kafka import RealKafka
from tests.parity import programs_of_reading, programs_of_threads
from tests.parity.world import PATIENCE_S, World, agree
from tests.tier import sample

PROGRAMS = (*programs_of_reading.PROGRAMS, *programs_of_threads.PROGRAMS)
_TRIALS = 3


def run(program: Callable[[World], Any], consumer_class: Any, kafka: RealKafka) -> Any:
    """Run a program; names that differ between runs are replaced."""
    world = World(consumer_class, kafka)
    try:
        return alike(program(world), world)
    finally:
        world.close()


def run_kafka_python(program: Callable[[World], Any], kafka: RealKafka) -> Any:
    """Run a program with kafka-python's consumer, and retry it after a timeout.

    If a `poll()` of kafka-python 3.0.12 ends during a join, the response of the coordinator may be
    lost. The consumer then considers itself a member, without partitions until the next rebalance.
    """
    for _ in range(_TRIALS - 1):
        with contextlib.suppress(AssertionError):
            return run(program, kafka_python.KafkaConsumer, kafka)
    return run(program, kafka_python.KafkaConsumer, kafka)


def alike(result: Any, world: World) -> Any:
    if isinstance(result, str):
        return re.sub(rf"{world.topic}|{world.group}", "name", result)
    if isinstance(result, dict):
        return {alike(key, world): alike(value, world) for key, value in result.items()}
    if type(result) in (list, tuple, set):
        return type(result)(alike(each, world) for each in result)
    if isinstance(result, kafka_python.TopicPartition):
        return alike(result.topic, world), result.partition
    return result


# kafka-python warns of functions as deserializers.
@pytest.mark.filterwarnings("ignore:.*does not implement kafka.serializer:DeprecationWarning")
@pytest.mark.timeout(_TRIALS * 2 * PATIENCE_S)
@pytest.mark.parametrize("program", sample(PROGRAMS, 3), ids=lambda program: program.__name__)
@pytest.mark.usefixtures("kafka_python_ends")
def test_a_program_gets_the_same_results(program: Callable[[World], Any], kafka: RealKafka) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # kafka-python leaves sockets open
        theirs = run_kafka_python(program, kafka)
        gc.collect()
    ours = run(program, KafkaConsumer, kafka)
    assert agree(ours, theirs), f"ours:   {ours}\ntheirs: {theirs}"
