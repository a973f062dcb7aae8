"""Reads return the same as in kafka-python: records, lists, a dict, errors."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import kafka as kafka_python
import pytest
from kafka.consumer.fetcher import ConsumerRecord as TheirRecord

from tandem_kafka import TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume

COUNT = 40
VALUES = [json.dumps({"number": number}).encode() for number in range(COUNT)]

Read = Callable[[Any], Any]

#: kafka-python takes functions, and would like classes.
pytestmark = [
    pytest.mark.usefixtures("with_kafka_python"),
    pytest.mark.filterwarnings("ignore:.*kafka.serializer.Deserializer"),
]


@pytest.fixture
def written(kafka: RealKafka, topic: str) -> str:
    """A topic with documents in two partitions."""
    headers = [("trace", b"1"), ("none", None)]
    kafka.admin.produce(
        topic,
        [
            Record(
                value,
                key=b"%d" % number if number % 3 else None,
                partition=number % 2,
                timestamp_ms=1_700_000_000_000 + number,
                headers=headers if number % 5 == 0 else [],
            )
            for number, value in enumerate(VALUES)
        ],
    )
    return topic


@pytest.fixture
def both(
    kafka: RealKafka, written: str, consume: Consume
) -> Iterator[Callable[..., tuple[Any, Any]]]:
    """Makes a consumer of ours and one of kafka-python, at the beginning of both partitions."""
    theirs: list[Any] = []

    def make(**options: Any) -> tuple[Any, Any]:
        options = {"consumer_timeout_ms": 60_000, **options}
        ours = consume(**options)
        other = kafka_python.KafkaConsumer(
            bootstrap_servers=kafka.bootstrap(),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **options,
        )
        theirs.append(other)
        for each in (ours, other):
            each.assign([TopicPartition(written, number) for number in range(2)])
        return ours, other

    yield make
    for each in theirs:
        each.close()


def polled(consumer: Any) -> dict[TopicPartition, list[Any]]:
    found: dict[TopicPartition, list[Any]] = {}
    while sum(map(len, found.values())) < COUNT:
        batch = consumer.poll(timeout_ms=5_000)
        assert isinstance(batch, dict)
        for tp, records in batch.items():
            assert isinstance(records, list)
            found[tp] = found.get(tp, []) + records
    return found


def looped(consumer: Any) -> dict[TopicPartition, list[Any]]:
    found: dict[TopicPartition, list[Any]] = {}
    for number, record in enumerate(consumer, 1):
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        if number == COUNT:
            break
    return found


DESERIALIZING = {"key_deserializer": lambda key: key and int(key), "value_deserializer": json.loads}


@pytest.mark.partitions(2)
@pytest.mark.parametrize("options", [{}, DESERIALIZING], ids=["bytes", "deserialized"])
@pytest.mark.parametrize("read", [polled, looped])
def test_the_same_records(
    both: Callable[..., tuple[Any, Any]], read: Read, options: dict[str, Any]
) -> None:
    ours, theirs = map(read, both(**options))
    assert ours == theirs
    assert repr(sorted(ours.items())) == repr(sorted(theirs.items()))
    for tp, records in ours.items():
        for record, other in zip(records, theirs[tp], strict=True):
            assert isinstance(record, TheirRecord)
            assert [type(field) for field in record] == [type(field) for field in other]
            assert pickle.loads(pickle.dumps(record)) == other
            if options:
                plain = record._replace(headers=[])
                assert json.dumps(plain) == json.dumps(other._replace(headers=[]))


@pytest.mark.partitions(2)
def test_a_header_can_be_added_while_records_are_read(
    both: Callable[..., tuple[Any, Any]],
) -> None:
    counts = []
    for consumer in both():
        seen = []
        for number, record in enumerate(consumer, 1):
            seen.append(len(record.headers))
            record.headers.append(("added", b"1"))
            if number == COUNT:
                break
        counts.append(sorted(seen))
    assert counts[0] == counts[1] == [0] * 32 + [2] * 8


def refuse(data: bytes) -> Any:
    document = json.loads(data)
    return document if document["number"] < 20 else json.loads("{" + str(document["number"]))


@pytest.mark.partitions(2)
@pytest.mark.parametrize("loop", [False, True], ids=["poll", "loop"])
def test_an_exception_of_a_deserializer_keeps_its_type(
    both: Callable[..., tuple[Any, Any]], *, loop: bool
) -> None:
    for consumer in both(value_deserializer=refuse):
        read: list[Any] = []
        with pytest.raises(json.JSONDecodeError) as caught:  # noqa: PT012 - until it is raised
            while len(read) < COUNT:
                if loop:
                    read.append(next(consumer))
                else:
                    for records in consumer.poll(timeout_ms=5_000).values():
                        read += records
        assert (caught.value.pos, caught.value.doc[:2]) == (1, "{2")
        assert {record.value["number"] for record in read} <= set(range(20))
        assert len(read) >= 10
