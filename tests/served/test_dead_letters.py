"""`DeadLetters` with the producers of others, and what they refuse to send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import MessageSizeTooLargeError

from tandem_kafka import (
    AsyncKafkaConsumer,
    AsyncShareConsumer,
    KafkaConsumer,
    KafkaProducer,
    ShareConsumer,
)
from tandem_kafka.errors import ArgumentTypeError, RecordFailedError
from tandem_kafka.workers import (
    AsyncKeyedWorkers,
    AsyncShareWorkers,
    DeadLetters,
    KeyedWorkers,
    ShareWorkers,
)
from tandem_kafka_testing.served import ServedKafka
from tests.served.clients import TIMEOUT_S

LARGE = b"v" * 1_100_000


@pytest.fixture(params=["kafka-python", "confluent-kafka"])
def producer(request: pytest.FixtureRequest, cluster: ServedKafka) -> Iterator[Any]:
    if request.param == "confluent-kafka":
        yield confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
        return
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")) as made:
        yield made


@pytest.fixture
def letters(cluster: ServedKafka, topic: str) -> str:
    return cluster.create_topic(f"{topic}-dead", 1)


def produce(cluster: ServedKafka, topic: str, value: bytes | None, headers: Any = ()) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "message.max.bytes": 2_000_000,
            "compression.type": "gzip",
        }
    )
    producer.produce(topic, value, headers=list(headers), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def read(cluster: ServedKafka, topic: str, **options: Any) -> Any:
    with KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", **options
    ) as consumer:
        return next(consumer)


def fail(_: object) -> None:
    raise ValueError("poison")


async def fail_async(_: object) -> None:
    raise ValueError("poison")


def keyed(cluster: ServedKafka, topic: str, letters: DeadLetters) -> None:
    with KafkaConsumer(topic, **options(cluster, topic, enable_auto_commit=False)) as consumer:
        workers = KeyedWorkers(consumer, fail, exhausted=letters)
        workers.run(lambda: workers.done > 0)


def async_keyed(cluster: ServedKafka, topic: str, letters: DeadLetters) -> None:
    async def main() -> None:
        given = options(cluster, topic, enable_auto_commit=False)
        async with AsyncKafkaConsumer(topic, **given) as consumer:
            workers = AsyncKeyedWorkers(consumer, fail_async, exhausted=letters)
            await workers.run(lambda: workers.done > 0)

    asyncio.run(main())


def share(cluster: ServedKafka, topic: str, letters: DeadLetters) -> None:
    given = options(cluster, topic, acknowledgement="explicit")
    with ShareConsumer(topic, **given) as consumer:
        workers = ShareWorkers(consumer, fail, otherwise=letters)
        workers.run(lambda: workers.done > 0)


def async_share(cluster: ServedKafka, topic: str, letters: DeadLetters) -> None:
    async def main() -> None:
        given = options(cluster, topic, acknowledgement="explicit")
        async with AsyncShareConsumer(topic, **given) as consumer:
            workers = AsyncShareWorkers(consumer, fail_async, otherwise=letters)
            await workers.run(lambda: workers.done > 0)

    asyncio.run(main())


def options(cluster: ServedKafka, topic: str, **more: Any) -> dict[str, Any]:
    if "acknowledgement" not in more:
        more["auto_offset_reset"] = "earliest"
    return {"bootstrap_servers": cluster.bootstrap, "group_id": f"of-{topic}", **more}


@pytest.mark.parametrize("workers", [keyed, async_keyed, share, async_share])
def test_a_header_without_a_value_keeps_no_record_from_the_dead_letters(
    served: ServedKafka, workers: Callable[..., None]
) -> None:
    """kafka-python's producer refused it, and the partition stood still."""
    topic, letters = (served.create_topic(f"{workers.__name__}-{each}") for each in ("in", "dead"))
    served.perform(
        lambda cluster: cluster.configure_group(f"of-{topic}", share_auto_offset_reset="earliest")
    )
    produce(served, topic, None, [("a", None), ("b", b"")])
    with closing(KafkaProducer(bootstrap_servers=served.bootstrap)) as producer:
        workers(served, topic, DeadLetters(producer, letters))
    assert read(served, letters).headers[:2] == [("a", b""), ("b", b"")]


def test_headers_arrive_as_the_producer_allows(
    cluster: ServedKafka, topic: str, letters: str, producer: Any
) -> None:
    given = [("a", None), ("", b"x"), ("a", b""), ("\N{LATIN SMALL LETTER U WITH DIAERESIS}", b"1")]
    produce(cluster, topic, b"v", given)
    DeadLetters(producer, letters)(read(cluster, topic), ValueError("why"), 1)
    absent = None if isinstance(producer, confluent_kafka.Producer) else b""
    letter = read(cluster, letters)
    assert letter.headers[:4] == [("a", absent), *given[1:]]
    assert ("dead-letter-reason", b"ValueError: why") in letter.headers


def test_a_letter_that_is_too_large_for_the_producer_names_the_cure(
    cluster: ServedKafka, producer: Any, topic: str, letters: str
) -> None:
    """The record was compressed when it was produced; the producer looks before it compresses."""
    produce(cluster, topic, LARGE)
    option = "message.max.bytes"
    if not isinstance(producer, confluent_kafka.Producer):
        option = "max_request_size"
    with pytest.raises(MessageSizeTooLargeError, match=f"raise {option} of the producer"):
        DeadLetters(producer, letters)(read(cluster, topic), ValueError("why"), 1)


def test_a_letter_that_is_too_large_for_the_topic_names_the_cure(
    cluster: ServedKafka, producer: Any, topic: str
) -> None:
    produce(cluster, topic, b"v" * 1_000)
    small = NewTopic(f"{topic}-small", 1, 1, topic_configs={"max.message.bytes": "500"})
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        admin.create_topics([small])
    with pytest.raises(MessageSizeTooLargeError, match=r"max\.message\.bytes of the topic"):
        DeadLetters(producer, small.name)(read(cluster, topic), ValueError("why"), 1)


def test_a_value_that_is_no_bytes_names_the_cure(
    cluster: ServedKafka, producer: Any, topic: str, letters: str
) -> None:
    produce(cluster, topic, b"7")
    record = read(cluster, topic, value_deserializer=int)
    with pytest.raises(ArgumentTypeError, match="pass key_serializer and value_serializer"):
        DeadLetters(producer, letters)(record, ValueError("why"), 1)


def test_what_ends_the_run_names_the_cure_once(served: ServedKafka) -> None:
    topic = served.create_topic("one-cure")
    produce(served, topic, b"7")

    with (
        closing(KafkaProducer(bootstrap_servers=served.bootstrap, max_request_size=10)) as producer,
        pytest.raises(RecordFailedError) as raised,
    ):
        keyed(served, topic, DeadLetters(producer, served.create_topic("one-cure-dead")))
    assert "raise max_request_size" in str(raised.value.__cause__)
