"""Checkpoints that Spark's own connector and this source continue in turn.

`test_parity` compares everything else with the connector.
"""

from __future__ import annotations

import pytest

from benchmarks.spark.connector import connector_jars
from packages.spark.tests.session import Tables
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

pytestmark = pytest.mark.skipif(
    not connector_jars(), reason="Spark's own connector could not be downloaded to compare with"
)

OURS, THEIRS = "tandem_kafka", "kafka"


@pytest.mark.partitions(2)
@pytest.mark.parametrize("unfinished", [False, True])
@pytest.mark.parametrize("order", [(THEIRS, OURS) * 2, (OURS, THEIRS) * 2])
def test_both_continue_the_checkpoint_of_the_other(
    kafka: RealKafka, topic: str, tables: Tables, order: tuple[str, ...], unfinished: bool
) -> None:
    produced = 0

    def produce() -> None:
        nonlocal produced
        kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(20)])
        produced += 10

    for number, by in enumerate(order):
        produce()
        if unfinished and number == 1:
            noted = tables.folder / "out-checkpoint" / "commits" / "0"
            noted.unlink()
            noted.with_name(".0.crc").unlink()
        tables.finish(tables.stream(topic, by=by))
    found = [(row.partition, row.offset) for row in tables.written()]
    assert found == [(partition, at) for partition in (0, 1) for at in range(produced)]
