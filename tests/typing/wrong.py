"""Mistakes: each line with a marker must be found by every checker, and no other one."""

from __future__ import annotations

from tandem_kafka import (
    AsyncKafkaConsumer,
    ConsumerOptions,
    ConsumerRebalanceListener,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from tandem_kafka.errors import BrokerResponseError, LogTruncationError


class Half:
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None: ...


class Named(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[str]) -> None: ...  # wrong: partitions

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None: ...


class Unfinished(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None: ...


def text(data: bytes) -> str:
    return data.decode()


def reading(consumer: KafkaConsumer) -> None:
    for record in consumer:
        print(record.value.upper())  # wrong: a tombstone has none
        print(record.vaule)  # wrong: no such field
        print(record.offset + record.topic)  # wrong: a number and a name
    consumer.poll("1000")  # wrong: no number
    consumer.poll(timeout=1.0)  # wrong: it is timeout_ms
    for records in consumer.poll().values():
        print(records.offset)  # wrong: a list has none
    typed = KafkaConsumer("t", value_deserializer=text)
    print(next(typed).value + 1)  # wrong: text and a number
    print(next(typed).value.decode())  # wrong: text is decoded already


def options() -> None:
    KafkaConsumer("t", auto_offset_reset="earlist")  # wrong: misspelt
    KafkaConsumer("t", group="g")  # wrong: no such option
    KafkaConsumer("t", enable_auto_commit="False")  # wrong: no boolean
    KafkaConsumer("t", session_timeout_ms="10000")  # wrong: no number
    KafkaConsumer(["t"])  # wrong: names are arguments of their own
    KafkaConsumer("t", value_deserializer=17)  # wrong: cannot be called
    KafkaConsumer("t", value_deserializer=text, isolation_level="commited")  # wrong: misspelt
    more: ConsumerOptions = {"gruop_id": "g"}  # wrong: misspelt
    print(more)


def steering(consumer: KafkaConsumer) -> None:
    tp = TopicPartition("t")  # wrong: no partition
    consumer.seek(tp)  # wrong: no offset
    consumer.seek("t", 0)  # wrong: no partition
    consumer.subscribe(["t"], listener=Half())  # wrong: a method is missing
    consumer.subscribe(["t"], listener=Unfinished())  # wrong: abstract
    consumer.subscribe(pattern=17)  # wrong: no pattern
    consumer.assign([("t", 0)])  # wrong: a tuple is no TopicPartition
    consumer.close(leave_group="yes")  # wrong: no such word


def committing(consumer: KafkaConsumer) -> None:
    tp = TopicPartition("t", 0)
    consumer.commit([tp])  # wrong: a list
    consumer.commit({tp: 17})  # wrong: no OffsetAndMetadata
    print(consumer.committed(tp) + 1)  # wrong: None where nothing is committed
    print(consumer.committed(tp, metadata=True).offset)  # wrong: likewise
    consumer.commit_async(callback=text)  # wrong: two arguments
    print(consumer.offsets_for_times({tp: 0})[tp].offset)  # wrong: None behind the end
    print(OffsetAndMetadata(1).ofset)  # wrong: no such field


def failing(consumer: KafkaConsumer) -> None:
    try:
        consumer.poll()
    except LogTruncationError as error:
        print(error.offsets)  # wrong: no such attribute
    except BrokerResponseError as error:
        print(error.errno + error.message)  # wrong: a number and a name


async def with_asyncio(consumer: AsyncKafkaConsumer[bytes | None, bytes | None]) -> None:
    for _ in consumer:  # wrong: it needs async for
        pass
    with consumer:  # wrong: it needs async with
        pass
    consumer.pol()  # wrong: no such method
    batch = consumer.poll()
    print(batch.count)  # wrong: it needs await
    consumer.batches(max_wait_s=1)  # wrong: it is max_wait_ms
    await consumer.poll("1000")  # wrong: no number
    await consumer.subscribe(["a"], listener=Half())  # wrong: a method is missing
    async for record in consumer:
        print(record.value.upper())  # wrong: a tombstone has none
    AsyncKafkaConsumer("t", auto_offset_reset="earlist")  # wrong: misspelt
    AsyncKafkaConsumer("t", group="g")  # wrong: no such option
