"""Compares this source with what Spark's own connector did, in all combinations of `parity`.

After a change of them: `python -m tests.spark.parity record`, which needs the connector.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tandem_kafka.testing.kafka import RealKafka
from tests.spark.parity.cases import Stream, cases
from tests.spark.parity.page import PAGE, agree, page, recorded
from tests.spark.parity.reasons import REASONS, reason_for
from tests.spark.parity.topics import Topics
from tests.spark.session import SPARK

OUTCOMES = recorded()["outcomes"]

#: Chooses a half of the batch queries and sinks; without it all of them run. An error ends Spark's
#: planning process, and the next query waits for a new one: all of them take too long for each run.
PART = os.environ.get("TANDEM_KAFKA_PARITY_PART")


def chosen(part: str | None) -> list[str]:
    """Return the combinations to run: all streams, and a half of the others."""
    streams = [name for name, case in cases().items() if isinstance(case, Stream)]
    others = [name for name in cases() if name not in streams]
    return (others if part is None else others[int(part) % 2 :: 2]) + streams


@pytest.fixture(scope="module")
def runner(spark: Any, kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if SPARK < (4, 2):
        pytest.skip(f"rate limits need Spark 4.2, this is {SPARK}")
    from tests.spark.parity.outcomes import OURS, Runner

    yield Runner(spark, Topics(kafka), OURS, tmp_path_factory.mktemp("parity"))
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize("name", chosen(PART))
def test_the_outcome_is_that_of_the_connector(runner: Any, name: str) -> None:
    outcome = OUTCOMES[name]
    here = runner.run(cases()[name])
    assert agree(here, outcome.get("here", outcome["connector"])), here


def test_there_are_enough_combinations() -> None:
    assert list(cases()) == list(OUTCOMES), "python -m tests.spark.parity record"
    streams = [case for case in cases().values() if isinstance(case, Stream)]
    assert len(cases()) >= 150
    assert len(streams) >= 25
    assert {*chosen("0"), *chosen("1")} == {*chosen(None)} == {*cases()}


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    different = {name: each for name, each in OUTCOMES.items() if "here" in each}
    reasons = {name: reason_for(name, **each) for name, each in different.items()}
    assert not [name for name, reason in reasons.items() if reason is None]
    assert set(reasons.values()) == set(REASONS)
    assert not [name for name, each in different.items() if agree(each["here"], each["connector"])]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.spark.parity page"
