"""Interceptors: their calls, their results and their errors."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import CommitFailedError, IllegalStateError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)


class Audit:
    """Records its calls."""

    def __init__(self) -> None:
        self.consumed: list[int] = []
        self.committed: list[int] = []
        self.closed = 0

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        self.consumed += [record.offset for rs in records.values() for record in rs]
        return records

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed += [each.offset for each in offsets.values()]

    def close(self) -> None:
        self.closed += 1


def reader(simulation: Simulation, *interceptors: Any, **options: Any) -> KafkaConsumer:
    create_topic(simulation, "orders", 1)
    produce(simulation, TP, 10)
    return simulation.consumer(
        "orders",
        group_id="readers",
        auto_offset_reset="earliest",
        interceptor_classes=interceptors,
        **{"enable_auto_commit": False, **options},
    )


def read_all(consumer: KafkaConsumer) -> list[int]:
    found: list[int] = []
    while not consumer.assignment() or consumer.position(TP) < 10:
        found += [record.offset for rs in consumer.poll(500).values() for record in rs]
    return found


@pytest.mark.behaviour(136)
def test_sync_and_async_commits_are_seen_before_the_callback() -> None:
    with Simulation("interceptors") as simulation:
        audit, order = Audit(), []
        consumer = reader(simulation, audit)
        assert read_all(consumer) == audit.consumed == list(range(10))
        consumer.commit_sync({TP: OffsetAndMetadata(3)})
        assert audit.committed == [3]
        future = consumer.commit_async(
            {TP: OffsetAndMetadata(4)},
            lambda _, error: order.append((error, list(audit.committed))),
        )
        while not future.is_done:
            consumer.poll(100)
        assert order == [(None, [3, 4])]
        consumer.close()
        assert audit.closed == 1


@pytest.mark.behaviour(136)
def test_interceptors_do_not_see_failed_commits() -> None:
    with Simulation("interceptors") as simulation:
        audit = Audit()
        consumer = reader(simulation, audit)
        read_all(consumer)
        simulation.cluster.expel("readers", consumer.group_metadata().member_id)
        with pytest.raises(CommitFailedError):
            consumer.commit_sync({TP: OffsetAndMetadata(3)})
        future = consumer.commit_async({TP: OffsetAndMetadata(3)})
        consumer.poll(2_000)
        assert future.failed()
        assert audit.committed == []


def test_an_interceptor_may_change_the_records() -> None:
    class Even:
        def on_consume(self, records: ConsumerRecords) -> dict[TopicPartition, Any]:
            return {tp: [r for r in rs if r.offset % 2 == 0] for tp, rs in records.items()}

    with Simulation("interceptors") as simulation:
        audit = Audit()
        consumer = reader(simulation, Even, audit, consumer_timeout_ms=2_000)
        assert [record.offset for record in consumer] == audit.consumed == [0, 2, 4, 6, 8]
        assert consumer.position(TP) == 10


@pytest.mark.behaviour(174)
def test_an_error_of_an_interceptor_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def on_consume(self, _: ConsumerRecords) -> Any:
            raise LookupError("consume")

        def on_commit(self, _: object) -> None:
            raise LookupError("commit")

        def close(self) -> None:
            raise LookupError("close")

    class Confused:
        def on_consume(self, records: ConsumerRecords) -> Any:
            return [record for rs in records.values() for record in rs]

    class Values:
        def on_consume(self, records: ConsumerRecords) -> Any:
            return {tp: [record.value for record in rs] for tp, rs in records.items()}

    with Simulation("interceptors") as simulation:
        audit = Audit()
        consumer = reader(simulation, Broken, Confused(), Values, audit)
        assert read_all(consumer) == audit.consumed == list(range(10))
        consumer.commit_sync()
        assert audit.committed == [10]
        consumer.close()
    for what in ("consume", "commit", "close"):
        assert f"LookupError: {what}" in caplog.text
    assert "must return records of the partitions it received" in caplog.text


def test_skipped_auto_commits_leave_nothing_behind() -> None:
    with Simulation("interceptors") as simulation:
        audit = Audit()
        consumer = reader(simulation, audit, enable_auto_commit=True, auto_commit_interval_ms=0)
        read_all(consumer)
        simulation.cluster.stop(next(iter(simulation.cluster.brokers)))
        for _ in range(100):
            consumer.poll(50)
        assert len(consumer._commits._automatic) <= 2


def test_interceptors_do_not_see_idle_polls() -> None:
    class First:
        def on_consume(self, records: ConsumerRecords) -> None:
            counts.append(records.count)

    counts: list[int] = []
    with Simulation("interceptors") as simulation:
        consumer = reader(simulation, First)
        read_all(consumer)
        for _ in range(5):
            consumer.poll(100)
        assert sum(counts) == 10
        assert all(counts)


def test_interceptors_do_not_see_arrow_batches() -> None:
    with Simulation("interceptors") as simulation:
        consumer = reader(simulation, Audit())
        with pytest.raises(IllegalStateError, match=r"poll_arrow.*on_consume"):
            consumer.poll_arrow()
