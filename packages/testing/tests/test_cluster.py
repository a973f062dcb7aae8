"""The simulated cluster: scripted responses, logs, and checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import errors

from tandem_kafka import TopicPartition
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError, TopicAuthorizationFailedError
from tandem_kafka.wire.messages import (
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    OffsetCommitRequest,
)
from tandem_kafka_testing import CUT, DROP, Call, Simulation
from tandem_kafka_testing.cluster.log import PartitionLog

TP = TopicPartition("orders", 0)


def started(simulation: Simulation, **options: object) -> object:
    simulation.cluster.create_topic("orders")
    simulation.cluster.produce(TP, b"one", b"two")
    consumer = simulation.consumer(auto_offset_reset="earliest", **options)
    consumer.assign([TP])
    return consumer


def test_a_response_may_be_dropped_cut_or_delayed() -> None:
    with Simulation() as simulation:
        consumer = started(simulation, request_timeout_ms=2_000)

        def late(call: Call) -> object:
            call.delay_ms = 700
            return call.default()

        simulation.cluster.script(FetchRequest, DROP, CUT, late)
        began_ms = simulation.clock.now_ms()
        assert consumer.poll(60_000).count == 2
        assert simulation.clock.now_ms() - began_ms > 2_700


def test_a_response_may_be_changed() -> None:
    with Simulation() as simulation:
        consumer = started(simulation)

        def refuse(call: Call) -> object:
            response = call.default()
            for topic in response.responses:
                for partition in topic.partitions:
                    partition.error_code = errors.TopicAuthorizationFailedError.errno
                    partition.records = b""
            return response

        simulation.cluster.script(FetchResponse, refuse)
        with pytest.raises(TopicAuthorizationFailedError):
            consumer.poll(5_000)
        assert consumer.poll(5_000).count == 2


def test_requests_behind_a_dropped_one_wait() -> None:
    with Simulation() as simulation:
        consumer = started(simulation, group_id="readers", enable_auto_commit=False)
        assert consumer.poll(5_000).count == 2
        simulation.cluster.script(OffsetCommitRequest, DROP)
        with pytest.raises(KafkaTimeoutError):
            consumer.commit(timeout_ms=1_000)


def test_a_commit_without_membership_is_rejected_while_a_group_has_members() -> None:
    with Simulation() as simulation:
        consumer = started(simulation, group_id="readers", enable_auto_commit=False)
        assert consumer.poll(5_000).count == 2
        member = simulation.consumer("orders", group_id="readers")
        member.poll(2_000)
        with pytest.raises(CommitFailedError):
            consumer.commit()


def test_missing_topics_are_created_only_if_allowed() -> None:
    """With `allow_auto_create_topics`, and if the brokers allow it."""
    for allowed in (True, False):
        with Simulation() as simulation:
            simulation.cluster.auto_create = True
            consumer = simulation.consumer(allow_auto_create_topics=allowed)
            assert consumer.partitions_for_topic("new") == set(), "asking creates nothing"
            consumer.assign([TopicPartition("new", 0)])
            consumer.poll(2_000)
            assert consumer.partitions_for_topic("new") == ({0} if allowed else set())


def test_a_broker_counts_its_requests() -> None:
    with Simulation() as simulation:
        simulation.consumer()
        assert simulation.cluster.brokers[1].requests[MetadataRequest.name] == 1


# --- the log -----------------------------------------------------------------------------------


def log_of(*epochs: int) -> PartitionLog:
    log = PartitionLog()
    for number, epoch in enumerate(epochs):
        log.append([b"a", b"b"], epoch, 1_000 + number)
    return log


def test_a_read_returns_at_least_one_batch_and_more_while_they_fit() -> None:
    log = log_of(0, 0, 0)
    (first,) = log.read(0, 1)
    assert len(log.read(0, 2 * len(first.data))) == 2
    assert [batch.base_offset for batch in log.read(3, 10_000)] == [2, 4]
    assert log.read(6, 10_000) == []


def test_epochs_end_where_the_next_begins() -> None:
    log = log_of(0, 0, 2, 5)
    assert log.end_of_epoch(0) == (0, 4)
    assert log.end_of_epoch(3) == (2, 6)
    assert log.end_of_epoch(5) == (5, 8)
    assert log.end_of_epoch(9) == (-1, -1), "no leader ever had that one"
    assert PartitionLog().end_of_epoch(1) == (-1, -1)


def test_an_epoch_without_records_ends_where_it_begins() -> None:
    log = log_of(0, 0)
    log.begin_epoch(1)
    assert log.end_of_epoch(0) == log.end_of_epoch(0) == (0, 4)
    assert log.end_of_epoch(1) == (1, 4)
    log.begin_epoch(2)
    assert log.end_of_epoch(1) == (0, 4), "the next leader begins at the same offset"


def test_epochs_are_truncated_and_dropped_with_their_records() -> None:
    log = log_of(0, 0, 1, 2)
    log.truncate(6)
    log.begin_epoch(5)
    assert log.end_of_epoch(2) == (1, 6)
    log.delete_before(5)
    assert (log.first_epoch, log.end_of_epoch(1)) == (1, (1, 6))
    assert log.end_of_epoch(0) == (0, 5), "gone: those behind it begin there"


def test_offsets_are_found_by_timestamp() -> None:
    log = log_of(0, 1)
    assert log.find(1_001) == (2, 1_001, 1)
    assert log.find(2_000) is None


def test_truncation_and_retention() -> None:
    log = log_of(0, 0, 0)
    log.truncate(4)
    assert (log.start_offset, log.end_offset) == (0, 4)
    log.delete_before(2)
    assert (log.start_offset, log.end_offset) == (2, 4)
    assert log.find(0) == (2, 1_001, 0)
    log.truncate(0)
    assert log.read(0, 1_000) == []


# --- the same every time -----------------------------------------------------------------------

SCRIPT = """
from tests.simulation.test_faults import everything
print(everything(12).trace.digest)
"""


@pytest.mark.full("three processes with a run each")
def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path.cwd())}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1
