"""Programs that follow the documentation: no checker has anything to say about them."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypedDict, assert_type

from tandem_kafka import (
    AsyncConsumerRebalanceListener,
    AsyncKafkaConsumer,
    AsyncRebalanceListener,
    ConsumerGroupMetadata,
    ConsumerOptions,
    ConsumerRebalanceListener,
    ConsumerRecord,
    ConsumerRecords,
    Deserializer,
    KafkaConsumer,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)
from tandem_kafka.config import ByDuration
from tandem_kafka.errors import (
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    RecordDeserializationError,
)


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        print(sorted(revoked))

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        print({tp.topic for tp in partitions})


class AsyncListener(AsyncConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        print(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        print(assigned)


class Duck:
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None: ...

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None: ...


class Length(Deserializer):
    def deserialize(self, topic: str, headers: object, data: bytes | None) -> int:
        return len(topic) + len(repr(headers)) + len(data or b"")


def text(data: bytes) -> str:
    return data.decode()


def plain() -> None:
    with KafkaConsumer("orders", bootstrap_servers="localhost:9092", group_id="g") as consumer:
        assert_type(consumer, KafkaConsumer[bytes | None, bytes | None])
        for record in consumer:
            assert_type(record.value, bytes | None)
            assert_type(record.headers, list[tuple[str, bytes | None]])
            if record.value is not None:
                print(record.topic, record.offset + 1, record.value.decode())
        for tp, records in consumer.poll(timeout_ms=0.5, max_records=10).items():
            assert_type(tp.partition, int)
            assert_type(records[0].key, bytes | None)


def deserialized() -> None:
    values = KafkaConsumer("t", value_deserializer=text)
    assert_type(values, KafkaConsumer[bytes | None, str])
    for record in values:
        print(record.value.upper())
    both = KafkaConsumer("t", key_deserializer=Length(), value_deserializer=text, group_id="g")
    assert_type(both, KafkaConsumer[int, str])
    assert_type(next(both).key, int)
    assert_type(both.poll(), ConsumerRecords[int, str])
    keys = KafkaConsumer("t", key_deserializer=text)
    assert_type(next(keys).key, str)
    parsed = KafkaConsumer("t", value_deserializer=json.loads)
    print(parsed.poll(), next(parsed).value["amount"])
    shown = KafkaConsumer("t", value_deserializer=lambda data: json.loads(data.decode()))
    print(next(shown).value["amount"])
    annotated: KafkaConsumer[bytes | None, str] = KafkaConsumer("t", value_deserializer=bytes.hex)
    handle(next(annotated))


def handle(record: ConsumerRecord[bytes | None, str]) -> str:
    return record.value.upper()


class Cluster(TypedDict):
    bootstrap_servers: str
    security_protocol: Literal["PLAINTEXT", "SSL"]


class Job:
    consumer: KafkaConsumer

    def __init__(self, brokers: list[str]) -> None:
        self.consumer = KafkaConsumer(bootstrap_servers=brokers)


def with_options(anything: dict[str, Any], more: ConsumerOptions) -> None:
    options: ConsumerOptions = {
        "bootstrap_servers": ["localhost:9092"],
        "auto_offset_reset": "earliest",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "session_timeout_ms": 10_000.5,
    }
    KafkaConsumer("t", **options)
    beside: ConsumerOptions = {**options, **more, "group_id": "g"}
    KafkaConsumer("t", **beside)
    shared: Cluster = {"bootstrap_servers": "localhost:9092", "security_protocol": "SSL"}
    KafkaConsumer("t", **shared, group_id="g", value_deserializer=text)
    KafkaConsumer("t", **anything)
    unknown: KafkaConsumer[Any, Any] = KafkaConsumer("t", **anything)
    print(next(unknown).value.amount)
    KafkaConsumer("t", **anything, group_id="g", value_deserializer=text)
    KafkaConsumer("t", auto_offset_reset=ByDuration("by_duration:PT1H"))


def steered(consumer: KafkaConsumer) -> None:
    consumer.subscribe(["a", "b"], listener=Listener())
    consumer.subscribe(topics=("a",), listener=AsyncListener())
    consumer.subscribe(pattern="^a", listener=Duck())
    consumer.subscribe(pattern=re.compile("a"))
    consumer.subscribe(pattern=SubscriptionPattern("a.*"))
    tp = TopicPartition("a", 0)
    consumer.assign([tp])
    consumer.seek(tp, 17)
    consumer.seek(tp, OffsetAndMetadata(17, "", -1))
    consumer.seek_to_beginning()
    consumer.pause(tp, TopicPartition(topic="a", partition=1))
    assert_type(consumer.position(tp), int)
    assert_type(consumer.position(tp, timeout_ms=10), int | None)
    assert_type(consumer.assignment(), set[TopicPartition])
    assert_type(consumer.end_offsets([tp])[tp], int)
    assert_type(consumer.offsets_for_times({tp: 0})[tp], OffsetAndTimestamp | None)


def committing(consumer: KafkaConsumer[str, str]) -> None:
    tp = TopicPartition("a", 0)

    def done(offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        print(offsets[tp].offset, error)

    try:
        consumer.commit()
        consumer.commit({tp: OffsetAndMetadata(1)})
        consumer.commit_async(callback=done).add_errback(print)
    except CommitFailedError as error:
        print(error.args)
    except KafkaTimeoutError as error:
        print(error.retriable)
    except RecordDeserializationError as error:
        consumer.seek(error.partition, error.offset + 1)
    except KafkaError:
        raise
    offset = consumer.committed(tp)
    assert_type(offset, int | None)
    whole = consumer.committed(tp, metadata=True)
    assert_type(whole, OffsetAndMetadata | None)
    if whole is not None:
        print(whole.offset + 1, whole.metadata)
    assert_type(consumer.group_metadata(), ConsumerGroupMetadata)
    print(consumer.group_metadata().generation_id + 1)


class Awaiting:
    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        print(sorted(revoked))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> str:
        return str(assigned)


async def with_asyncio(more: ConsumerOptions) -> None:
    async with AsyncKafkaConsumer("orders", group_id="g") as consumer:
        assert_type(consumer, AsyncKafkaConsumer[bytes | None, bytes | None])
        async for record in consumer:
            assert_type(record.value, bytes | None)
        async for batch in consumer.batches(max_records=10, max_wait_ms=0.5):
            assert_type(batch, ConsumerRecords[bytes | None, bytes | None])
    async with AsyncKafkaConsumer("t", value_deserializer=text) as typed:
        assert_type(typed, AsyncKafkaConsumer[bytes | None, str])
        assert_type((await anext(aiter(typed))).value, str)
        assert_type(await typed.poll(), ConsumerRecords[bytes | None, str])
    both = AsyncKafkaConsumer("t", key_deserializer=Length(), value_deserializer=text)
    assert_type(both, AsyncKafkaConsumer[int, str])
    keys = AsyncKafkaConsumer("t", key_deserializer=text)
    assert_type(keys, AsyncKafkaConsumer[str, bytes | None])
    AsyncKafkaConsumer("t", **more)


async def steered_with_asyncio(consumer: AsyncKafkaConsumer[str, str]) -> None:
    listener: AsyncRebalanceListener = Awaiting()
    await consumer.subscribe(["a"], listener=listener)
    await consumer.subscribe(pattern="^a", listener=AsyncListener())
    await consumer.subscribe(pattern=SubscriptionPattern("a.*"), listener=Listener())
    await consumer.subscribe(["a"], listener=Duck())
    tp = TopicPartition("a", 0)
    await consumer.assign([tp])
    consumer.seek(tp, 17)
    consumer.pause(tp)
    assert_type(await consumer.position(tp), int)
    assert_type(await consumer.position(tp, timeout_ms=100), int | None)
    assert_type(await consumer.committed(tp), int | None)
    assert_type(await consumer.committed(tp, metadata=True), OffsetAndMetadata | None)
    assert_type(await consumer.end_offsets([tp]), dict[TopicPartition, int])
    found = await consumer.offsets_for_times({tp: 0})
    assert_type(found, dict[TopicPartition, OffsetAndTimestamp | None])
    assert_type(consumer.assignment(), set[TopicPartition])
    await consumer.commit({tp: OffsetAndMetadata(17, "", -1)}, timeout_ms=500)
    await consumer.close(leave_group="leave")
