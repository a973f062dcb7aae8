"""Transactions in a simulated log: markers, last stable offset, aborted transactions."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch

from tandem_kafka import TopicPartition
from tandem_kafka.errors import IllegalStateError
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.log import Batch, PartitionLog

TP = TopicPartition("orders", 0)
NOW = 1_000


def decoded(batch: Batch) -> DefaultRecordBatch:
    return DefaultRecordBatch(memoryview(batch.data))


def test_a_marker_is_a_control_batch_that_kafka_python_reads() -> None:
    log = PartitionLog()
    log.append([b"a"], 3, NOW, producer_id=7)
    log.end_transaction(7, "abort", 3, NOW)
    log.append([b"b"], 3, NOW)
    records, marker, plain = map(decoded, log.read(0, 10_000))
    assert marker.validate_crc()
    assert (marker.is_control_batch, marker.is_transactional) == (True, True)
    assert (records.is_control_batch, records.is_transactional) == (False, True)
    assert (plain.is_control_batch, plain.is_transactional) == (False, False)
    assert (marker.producer_id, records.producer_id, plain.producer_id) == (7, 7, -1)
    (control,) = marker
    assert control.abort
    assert not control.commit
    log.append([b"c"], 3, NOW, producer_id=7)
    log.end_transaction(7, "commit", 3, NOW)
    (control,) = decoded(log.read(4, 10_000)[0])
    assert control.commit


def test_a_read_returns_the_aborted_transactions_in_its_range() -> None:
    log = PartitionLog()
    log.append([b"a", b"a"], 0, NOW, producer_id=7)
    log.end_transaction(7, "abort", 0, NOW)
    log.append([b"b"], 0, NOW, producer_id=7)
    log.end_transaction(7, "abort", 0, NOW)

    def told(offset: int, max_bytes: int = 10_000) -> list[tuple[int, int]]:
        found = log.aborted_among(offset, log.read(offset, max_bytes))
        return [(each.producer_id, each.first_offset) for each in found]

    assert told(0) == [(7, 0), (7, 3)]
    assert told(0, max_bytes=1) == [(7, 0)]
    assert told(2) == [(7, 0), (7, 3)], "the marker is still to come"
    assert told(3) == [(7, 3)]
    assert told(5) == []


def test_a_marker_without_records_ends_nothing() -> None:
    log = PartitionLog()
    log.end_transaction(7, "abort", 0, NOW)
    assert log.aborted_among(0, log.read(0, 10_000)) == []
    assert log.last_stable_offset == 1


def test_a_truncated_marker_leaves_its_transaction_open() -> None:
    log = PartitionLog()
    log.append([b"a"], 0, NOW, producer_id=7)
    log.end_transaction(7, "abort", 0, NOW)
    log.truncate(1)
    assert log.last_stable_offset == 0
    log.truncate(0)
    assert log.last_stable_offset == log.end_offset == 0


def test_retention_drops_records_of_open_transactions_too() -> None:
    log = PartitionLog()
    log.append([b"a"], 0, NOW, producer_id=7)
    log.append([b"b"], 0, NOW, producer_id=7)
    log.delete_before(1)
    assert log.last_stable_offset == 1


def test_a_transaction_spans_partitions_and_ends_once() -> None:
    with Simulation() as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders", 2)
        other = TopicPartition("orders", 1)
        with cluster.transaction() as transaction:
            transaction.produce(TP, b"a")
            transaction.produce(other, b"b")
            assert cluster.at(TP).log.last_stable_offset == 0
        assert cluster.at(TP).log.end_offset == cluster.at(other).log.end_offset == 2
        assert cluster.at(other).log.last_stable_offset == 2
        for call in (transaction.commit, transaction.abort, lambda: transaction.produce(TP, b"c")):
            with pytest.raises(IllegalStateError, match=r"transaction of producer \d+ has ended"):
                call()


def test_an_exception_aborts_the_transaction() -> None:
    with Simulation() as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders")

        def fail() -> None:
            with cluster.transaction() as transaction:
                transaction.produce(TP, b"a")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        log = cluster.at(TP).log
        assert [a.first_offset for a in log.aborted_among(0, log.read(0, 10_000))] == [0]
