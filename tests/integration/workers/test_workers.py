"""Workers on a real broker: a group of processes, one of which is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest

from tandem_kafka import AsyncKafkaConsumer, TopicPartition
from tandem_kafka.workers import AsyncKeyedWorkers, DeadLetters, KeyedWorkers, Retry
from tandem_kafka.workers.done_map import decode
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import PROTOCOLS, SESSION_TIMEOUT_MS, options_of
from tests.integration.polling import Consume, partitions_of, read_all
from tests.waiting import wait_until

PARTITIONS = 2
ROOT = Path(__file__).resolve().parents[3]

Place = tuple[int, int]


class Process:
    """A process of `tests.integration.workers.working`, and what it has done."""

    def __init__(self, kafka: RealKafka, topic: str, protocol: str, file: Path, hold: bool):
        self._file = file
        file.touch()
        arguments = ["--bootstrap", kafka.bootstrap(), "--topic", topic, "--protocol", protocol]
        arguments += ["--file", str(file), *(["--hold"] if hold else [])]
        command = [sys.executable, "-m", "tests.integration.workers.working", *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT)

    @property
    def done(self) -> Counter[Place]:
        """How often each record was done."""
        lines = self._file.read_text(encoding="ascii").splitlines()
        return Counter((int(line.split()[0]), int(line.split()[1])) for line in lines)

    def end(self, number: signal.Signals) -> None:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        assert code == (0 if number == signal.SIGTERM else -number)


Start = Callable[..., Process]


@pytest.fixture
def start(kafka: RealKafka, topic: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a process; those that a failed test leaves are killed."""
    timeout_ms = str(SESSION_TIMEOUT_MS)
    kafka.admin.configure_group(f"group-{topic}", {"consumer.session.timeout.ms": timeout_ms})
    made: list[Process] = []

    def make(protocol: str, *, hold: bool = False) -> Process:
        file = tmp_path / f"done-{len(made)}"
        made.append(Process(kafka, topic, protocol, file, hold))
        return made[-1]

    yield make
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def fill(kafka: RealKafka, topic: str, count: int) -> set[Place]:
    """Write records with different keys; returns their places."""
    for partition in range(PARTITIONS):
        records = [Record(b"%d" % n, key=b"%d" % n, partition=partition) for n in range(count)]
        kafka.admin.produce(topic, records)
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(count)}


def marked(consume: Consume, topic: str) -> set[Place]:
    """Return the records that the commits of the group mark as done."""
    found = set()
    reader = consume(group_id=f"group-{topic}")
    for tp in partitions_of(topic, PARTITIONS):
        commit = reader.committed(tp, metadata=True)
        if commit is not None:
            found |= {(tp.partition, offset) for offset in range(commit.offset)}
            for begin, end in decode(tp, commit.offset, commit.metadata or "").ranges:
                found |= {(tp.partition, offset) for offset in range(begin, end)}
    return found


@pytest.mark.full("takes long on a real broker")
@pytest.mark.partitions(PARTITIONS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_of_two_processes_is_killed(
    kafka: RealKafka, topic: str, consume: Consume, start: Start, protocol: str
) -> None:
    first, second = start(protocol), start(protocol)
    expected = fill(kafka, topic, 300)
    wait_until(lambda: len(first.done) > 50 or len(second.done) > 50, "records to be done")
    victim, other = (first, second) if len(first.done) > len(second.done) else (second, first)
    victim.end(signal.SIGKILL)
    before = marked(consume, topic)
    wait_until(lambda: set(first.done) | set(second.done) == expected, "all records")
    other.end(signal.SIGTERM)
    assert marked(consume, topic) == expected
    repeated = {place for place, count in (first.done + second.done).items() if count > 1}
    assert not repeated & before & set(victim.done), "a commit marked these as done"


@pytest.mark.full("takes long on a real broker")
@pytest.mark.partitions(PARTITIONS)
@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_what_is_done_behind_a_stuck_record_is_not_repeated_after_a_crash(
    kafka: RealKafka, topic: str, consume: Consume, start: Start, protocol: str
) -> None:
    expected = fill(kafka, topic, 100)
    stuck = {(partition, 0) for partition in range(PARTITIONS)}
    first = start(protocol, hold=True)
    wait_until(lambda: marked(consume, topic) == expected - stuck, "a commit of the rest")
    first.end(signal.SIGKILL)
    second = start(protocol)
    wait_until(lambda: marked(consume, topic) == expected, "a commit of everything")
    second.end(signal.SIGTERM)
    assert set(second.done) == stuck


def options(kafka: RealKafka, topic: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.bootstrap(),
        "group_id": f"group-{topic}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def identify(record: Any) -> None:
    """Run in another process: fail in this one."""
    if record.offset % 10 == 3 or os.getpid() == int(record.headers[0][1]):
        raise ValueError(f"cannot handle {record.offset}")


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_a_process_pool_and_dead_letters(
    kafka: RealKafka, topic: str, consume: Consume, client: str
) -> None:
    letters = kafka.admin.create_topic(f"{topic}-dead", 1)
    pid = b"%d" % os.getpid()
    kafka.admin.produce(
        topic, [Record(b"%d" % n, key=b"k%d" % n, headers=[("pid", pid)]) for n in range(40)]
    )
    producer: Any
    if client == "confluent":
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap()})
    else:
        producer = kafka_python.KafkaProducer(bootstrap_servers=kafka.bootstrap(), acks="all")
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        consumer = consume(topic, group_id=f"group-{topic}", **options_of("consumer"))
        workers = KeyedWorkers(
            consumer,
            identify,
            workers=executor,
            retry=Retry(2, backoff_ms=(1, 10)),
            exhausted=DeadLetters(producer, letters),
        )
        workers.run(until=lambda: workers.done == 40)
        assert consumer.committed(TopicPartition(topic, 0)) == 40
    if client == "kafka-python":
        producer.close()
    reader = consume()
    reader.assign([TopicPartition(letters, 0)])
    found = {bytes(record.value): record for record in read_all(reader, 4)}
    assert set(found) == {b"3", b"13", b"23", b"33"}
    letter = found[b"13"]
    assert letter.key == b"k13"
    headers = dict(letter.headers)
    assert headers["pid"] == pid
    assert headers["dead-letter-reason"] == b"ValueError: cannot handle 13"
    assert headers["dead-letter-attempts"] == b"2"
    assert headers["dead-letter-topic"] == topic.encode()
    assert (headers["dead-letter-partition"], headers["dead-letter-offset"]) == (b"0", b"13")


def test_coroutines(kafka: RealKafka, topic: str) -> None:
    kafka.admin.produce(topic, [Record(b"%d" % n, key=b"%d" % (n % 7)) for n in range(200)])
    handled: list[int] = []

    async def handle(record: Any) -> None:
        await asyncio.sleep(0.002)
        handled.append(record.offset)

    async def main() -> int | None:
        async with AsyncKafkaConsumer(topic, **options(kafka, topic)) as consumer:
            workers = AsyncKeyedWorkers(consumer, handle, workers=5)
            await workers.run(until=lambda: workers.done == 200)
            return await consumer.committed(TopicPartition(topic, 0))

    assert asyncio.run(main()) == 200
    for key in range(7):
        offsets = [offset for offset in handled if offset % 7 == key]
        assert offsets == sorted(offsets)
