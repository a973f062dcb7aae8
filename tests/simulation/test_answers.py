"""Whatever a broker answers, for ever: what is asked and told is bounded, and `health()` says so.

The gate tries one error code of each class of reaction, at each level of each response, and what
else may be wrong in it; `python -m tests.answers` tries every code, for all kinds of consumers.
"""

from __future__ import annotations

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaError, LogTruncationError, NoOffsetForPartitionError
from tandem_kafka.wire.messages import OffsetFetchRequest, OffsetForLeaderEpochRequest
from tandem_kafka_testing import Simulation
from tests.answers.check import Case, broken_promises
from tests.answers.everyday import everyday
from tests.answers.table import NEVER_ASKED, ROWS, request_names
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.sharing import counted

TP = TopicPartition("orders", 0)


def test_each_request_has_a_row() -> None:
    missing = request_names() - {row.name for row in ROWS} - NEVER_ASKED.keys()
    assert not missing, f"no row for request {', '.join(sorted(missing))} in tests/answers/table.py"


@pytest.mark.parametrize("case", everyday("others"))
def test_an_answer_that_stays_is_bounded_and_told(case: Case) -> None:
    assert not broken_promises(case)


def _caught(
    simulation: Simulation, consumer: KafkaConsumer, seconds: int
) -> list[type[KafkaError]]:
    """Poll on, and catch each error, as a loop does that logs them."""
    caught = []
    end_ms = simulation.clock.now_ms() + seconds * 1_000
    while simulation.clock.now_ms() < end_ms:
        try:
            consumer.poll(500)
        except KafkaError as error:
            caught.append(type(error))
            assert len(caught) < 1_000
            simulation.sleep(1)
    return caught


def test_a_loop_that_catches_a_missing_offset_does_not_spin() -> None:
    """There were up to 1,040 lookups and errors a second."""
    with Simulation("no offset") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(group_id="readers", auto_offset_reset="none")
        consumer.assign([TP])
        caught = _caught(simulation, consumer, 30)
        assert set(caught) == {NoOffsetForPartitionError}
        assert 20 <= len(caught) <= 40
        assert counted(simulation, OffsetFetchRequest) <= 40
        assert "without a position" in consumer.health().not_ready[0]
        consumer.seek(TP, 0)
        assert not _caught(simulation, consumer, 2)
        assert consumer.health().ready


def test_a_loop_that_catches_a_truncation_does_not_spin(caplog: pytest.LogCaptureFixture) -> None:
    """There were up to 1,160 requests and errors a second, and a WARNING for each."""
    with Simulation("truncation", brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 10)
        consumer = simulation.consumer(auto_offset_reset="none")
        consumer.assign([TP])
        consumer.seek_to_beginning()
        while consumer.position(TP) < 10:
            consumer.poll(500)
        simulation.cluster.move_leader(TP, 3 - simulation.cluster.at(TP).leader, truncate_to=5)
        consumer.poll(0)
        before = counted(simulation, OffsetForLeaderEpochRequest)
        caught = _caught(simulation, consumer, 30)
        assert set(caught) == {LogTruncationError}
        assert 20 <= len(caught) <= 40
        assert counted(simulation, OffsetForLeaderEpochRequest) - before <= 40
        assert sum("was truncated below" in line for line in caplog.messages) == 1
        assert not consumer.health().ready
