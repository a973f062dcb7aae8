"""What the matrix asks of each client library: produce, read in a group, transactions."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import aiokafka
import confluent_kafka
from kafka import KafkaConsumer as KafkaPythonConsumer

from tandem_kafka import AsyncKafkaConsumer, KafkaConsumer, KafkaProducer
from tandem_kafka_testing.kafka.process import java_command
from tests.waiting import until

TIMEOUT_S = 30

Values = Sequence[bytes]
#: Writes values, and waits until the cluster has them: `bootstrap`, topic, values.
Produce = Callable[[str, str, Values], None]
#: Commits the first values and aborts the others: `bootstrap`, topic, values, values.
Transact = Callable[[str, str, Values, Values], None]
#: Reads committed values in a group from the beginning, and commits: `bootstrap`, topic, group,
#: number of values.
Read = Callable[[str, str, str, int], list[bytes]]


# --- producers -----------------------------------------------------------------------------------


def kafka_python_produces(bootstrap: str, topic: str, values: Values) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip") as producer:
        for future in [producer.send(topic, value) for value in values]:
            future.get(TIMEOUT_S)


def confluent_produces(bootstrap: str, topic: str, values: Values) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "gzip"}
    )
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def aiokafka_produces(bootstrap: str, topic: str, values: Values) -> None:
    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        async with producer:
            for value in values:
                await producer.send_and_wait(topic, value)

    _run(produce())


def java_produces(bootstrap: str, topic: str, values: Values) -> None:
    _java(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        lines=b"".join(value + b"\n" for value in values),
    )


def nobody_waits_for_acks(bootstrap: str, topic: str, values: Values) -> None:
    """`acks=0`: there is no response at all."""
    with KafkaProducer(bootstrap_servers=bootstrap, acks=0, enable_idempotence=False) as producer:
        for value in values:
            producer.send(topic, value)


PRODUCERS: dict[str, Produce] = {
    "kafka-python": kafka_python_produces,
    "confluent-kafka": confluent_produces,
    "aiokafka": aiokafka_produces,
    "java": java_produces,
    "without acks": nobody_waits_for_acks,
}


# --- transactions --------------------------------------------------------------------------------


def kafka_python_transacts(bootstrap: str, topic: str, kept: Values, aborted: Values) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=_unique()) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in kept:
            producer.send(topic, value)
        producer.commit_transaction()
        producer.begin_transaction()
        for value in aborted:
            producer.send(topic, value)
        producer.flush()
        producer.abort_transaction()


def confluent_transacts(bootstrap: str, topic: str, kept: Values, aborted: Values) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": _unique()}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in kept:
        producer.produce(topic, value)
    producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    for value in aborted:
        producer.produce(topic, value)
    producer.flush(TIMEOUT_S)
    producer.abort_transaction(TIMEOUT_S)


def aiokafka_transacts(bootstrap: str, topic: str, kept: Values, aborted: Values) -> None:
    async def transact() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=_unique()
        )
        async with producer:
            async with producer.transaction():
                for value in kept:
                    await producer.send_and_wait(topic, value)
            await producer.begin_transaction()
            for value in aborted:
                await producer.send_and_wait(topic, value)
            await producer.abort_transaction()

    _run(transact())


TRANSACTIONAL: dict[str, Transact] = {
    "kafka-python": kafka_python_transacts,
    "confluent-kafka": confluent_transacts,
    "aiokafka": aiokafka_transacts,
}


# --- consumers -----------------------------------------------------------------------------------


def kafka_python_reads(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    consumer = KafkaPythonConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_auto_commit=False,
        consumer_timeout_ms=TIMEOUT_S * 1_000,
    )
    try:
        values = [next(consumer).value for _ in range(count)]
        consumer.commit()
    finally:
        consumer.close()
    return values


@dataclass(frozen=True)
class Confluent:
    """confluent-kafka, with one of the group protocols."""

    protocol: str

    def __call__(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": self.protocol,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        try:
            values: list[bytes] = []
            for _ in until(lambda: len(values) >= count, lambda: values):
                message = consumer.poll(1.0)
                if message is not None:
                    assert message.error() is None, message.error()
                    values.append(message.value() or b"")
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values


def aiokafka_reads(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
        async with consumer:
            values = [(await consumer.getone()).value for _ in range(count)]
            await consumer.commit()
        return values

    return _run(read())


@dataclass(frozen=True)
class Tandem:
    """This package, with one of the group protocols."""

    protocol: str

    def options(self, bootstrap: str, group: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "group_protocol": self.protocol,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
        }

    def __call__(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        options = self.options(bootstrap, group)
        timeout_ms = TIMEOUT_S * 1_000
        with KafkaConsumer(topic, consumer_timeout_ms=timeout_ms, **options) as consumer:
            values = [next(consumer).value or b"" for _ in range(count)]
            consumer.commit()
        return values


class AsyncTandem(Tandem):
    """The asyncio consumer of this package."""

    def __call__(self, bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
        async def read() -> list[bytes]:
            options = self.options(bootstrap, group)
            values: list[bytes] = []
            async with AsyncKafkaConsumer(topic, **options) as consumer:
                async for record in consumer:
                    values.append(record.value or b"")
                    if len(values) == count:
                        await consumer.commit()
                        return values
            return values

        return _run(read())


def java_reads(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    output = _java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--from-beginning", "--max-messages", str(count), "--isolation-level", "read_committed"),
    )
    return [line for line in output.splitlines() if line.isdigit()]


CONSUMERS: dict[str, Read] = {
    "kafka-python": kafka_python_reads,
    "confluent-kafka, classic": Confluent("classic"),
    "confluent-kafka, kip-848": Confluent("consumer"),
    "aiokafka": aiokafka_reads,
    "tandem-kafka, classic": Tandem("classic"),
    "tandem-kafka, kip-848": Tandem("consumer"),
    "tandem-kafka, asyncio": AsyncTandem("consumer"),
    "java": java_reads,
}


def _unique() -> str:
    return f"matrix-{uuid.uuid4()}"


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, TIMEOUT_S))


def _java(main_class: str, *arguments: str, lines: bytes = b"") -> bytes:
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    ran = subprocess.run(
        java_command(main_class, *arguments, options=options, log_level="error"),
        input=lines,
        capture_output=True,
        timeout=2 * TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout.decode() + ran.stderr.decode()
    return ran.stdout
