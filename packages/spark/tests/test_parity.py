"""Compares this source with what Spark's own connector did, in all combinations of `parity`.

After a change of them: `python -m packages.spark.tests.parity record`, which needs the connector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from packages.spark.tests.parity.cases import cases
from packages.spark.tests.parity.dimensions import Batch, Stream
from packages.spark.tests.parity.page import agree, recorded
from packages.spark.tests.parity.reasons import REASONS, reason_for
from packages.spark.tests.parity.topics import Topics
from packages.spark.tests.session import SPARK
from tandem_kafka_testing.kafka import RealKafka

OUTCOMES = recorded()["outcomes"]


@pytest.fixture(scope="module")
def runner(spark: Any, kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if SPARK < (4, 2):
        pytest.skip(f"rate limits need Spark 4.2, this is {SPARK}")
    from packages.spark.tests.parity.outcomes import OURS, Runner

    yield Runner(spark, Topics(kafka), OURS, tmp_path_factory.mktemp("parity"))
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize("name", cases())
def test_the_outcome_is_that_of_the_connector(runner: Any, name: str) -> None:
    outcome = OUTCOMES[name]
    case, expected = cases()[name], outcome.get("here", outcome["connector"])
    # Spark ends a planning process that has raised an error, and starting one takes seconds.
    # `test_mistakes` shows what Spark makes of an error.
    without_spark = isinstance(case, Batch) and "error" in expected
    here = runner.without_spark(case) if without_spark else runner.run(case)
    assert agree(here, expected), here


def test_there_are_enough_combinations() -> None:
    assert list(cases()) == list(OUTCOMES), "python -m packages.spark.tests.parity record"
    streams = [case for case in cases().values() if isinstance(case, Stream)]
    assert len(cases()) >= 150
    assert len(streams) >= 25


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    different = {name: each for name, each in OUTCOMES.items() if "here" in each}
    reasons = {name: reason_for(name, **each) for name, each in different.items()}
    assert not [name for name, reason in reasons.items() if reason is None]
    assert set(reasons.values()) == set(REASONS)
    assert not [name for name, each in different.items() if agree(each["here"], each["connector"])]
