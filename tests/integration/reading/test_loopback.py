"""Real clients, with real sockets, on the simulated cluster under faults."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

import kafka
import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaProtocolError
from tandem_kafka.network import implementation
from tandem_kafka.runtime import Random
from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.fault_plan import FaultPlan, PlannedFault
from tandem_kafka_testing.network import Conditions
from tandem_kafka_testing.served import ServedKafka
from tests.tier import seeds

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 40
ROUNDS = 12
SEEDS = seeds(2, 4)
TIMEOUT_S = 60.0


@pytest.fixture(params=["native", "python"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The transport of consumers: that of the extension, or the one in Python."""
    if request.param == "python":
        monkeypatch.setattr(implementation, "native_available", False)
    elif not native_available:
        pytest.skip("the native extension is not in use")
    return str(request.param)


def create(cluster: SimCluster) -> None:
    cluster.create_topic(TOPIC, PARTITIONS)


def produce(cluster: SimCluster, begin: int, end: int) -> None:
    for number in range(begin, end):
        cluster.produce(TopicPartition(TOPIC, number % PARTITIONS), b"%d" % number)


def consumer(loopback: ServedKafka, **options: Any) -> KafkaConsumer:
    chosen: dict[str, Any] = {
        "group_id": "readers",
        "auto_offset_reset": "earliest",
        "reconnect_backoff_ms": 5,
        "retry_backoff_ms": 5,
        "request_timeout_ms": 2_000,
        **options,
    }
    return KafkaConsumer(TOPIC, bootstrap_servers=loopback.bootstrap, **chosen)


@pytest.mark.smoke
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_commits_and_goes_on(transport: str, protocol: str) -> None:
    del transport
    with ServedKafka() as loopback:
        loopback.perform(create)
        loopback.perform(lambda cluster: produce(cluster, 0, RECORDS))
        read: list[int] = []
        for upto in (RECORDS // 2, RECORDS):
            with consumer(
                loopback, group_protocol=protocol, max_poll_records=RECORDS // 4
            ) as reader:
                while len(read) < upto:
                    for records in reader.poll(timeout_ms=5_000).values():
                        read += [int(record.value or b"") for record in records]
                reader.commit()
        assert sorted(read) == list(range(RECORDS))


def test_kafka_python_reads_too() -> None:
    with ServedKafka() as loopback:
        loopback.perform(create)
        loopback.perform(lambda cluster: produce(cluster, 0, RECORDS))
        reader = kafka.KafkaConsumer(
            TOPIC,
            bootstrap_servers=loopback.bootstrap,
            group_id="others",
            auto_offset_reset="earliest",
            consumer_timeout_ms=20_000,
        )
        try:
            numbers = [int(next(reader).value) for _ in range(RECORDS)]
        finally:
            reader.close()
        assert sorted(numbers) == list(range(RECORDS))


#: The faults of a second, each with its share; garbled responses are those of `garbled`.
FAULTS = FaultPlan(
    [
        PlannedFault(("cut", "lead", "slow_down"), every_ms=130),
        PlannedFault("reunite", every_ms=410),
    ],
    Conditions(latency_ms=(0, 0), loss=0.01, refuse=0.1),
)


def garble(cluster: SimCluster, random: Random) -> None:
    """Let a tenth of the responses have another correlation id, a tenth lack their last bytes."""

    def garbled(frame: bytes) -> bytes:
        drawn = random.random()
        if drawn > 0.2 or len(frame) < 8:
            return frame
        if drawn > 0.1:
            return bytes([frame[0] ^ 0x40]) + frame[1:]
        return frame[: random.randrange(4, len(frame))]

    cluster.network.alter_response = garbled


@pytest.mark.parametrize("seed", SEEDS)
def test_under_faults_every_record_arrives_once_and_in_order(transport: str, seed: int) -> None:
    """Without a group nothing is read again, so each record must arrive exactly once."""
    del transport
    read: dict[int, list[int]] = defaultdict(list)
    with ServedKafka(brokers=2, seed=seed, faults=FAULTS) as loopback:
        loopback.perform(create)
        with consumer(loopback, group_id=None) as reader:
            for number in range(ROUNDS):
                begin = number * RECORDS
                if number == ROUNDS // 2:
                    loopback.perform(lambda cluster: garble(cluster, Random(seed)))
                loopback.perform(lambda cluster, at=begin: produce(cluster, at, at + RECORDS))
                read_for(reader, read, 0.1, begin + RECORDS)
            loopback.cause("heal")
            read_for(reader, read, TIMEOUT_S, ROUNDS * RECORDS)
    expected = {tp: list(range(tp, ROUNDS * RECORDS, PARTITIONS)) for tp in range(PARTITIONS)}
    assert read == expected


def read_for(
    reader: KafkaConsumer, read: dict[int, list[int]], duration_s: float, total: int
) -> None:
    """Read for some time, at most until there are `total` records."""
    until = time.monotonic() + duration_s
    while time.monotonic() < until and sum(map(len, read.values())) < total:
        try:
            polled = reader.poll(timeout_ms=20)
        except KafkaProtocolError:
            continue  # a garbled response, which poll() reports; the next one goes on
        for tp, records in polled.items():
            read[tp.partition] += [int(record.value or b"") for record in records]


def test_the_command_serves_a_topic_that_grows() -> None:
    """Run as a user would: it prints its address and ends with Ctrl-C."""
    arguments = ["serve", "--records", "5", "--per-second", "50"]
    command = [sys.executable, "-m", "tandem_kafka_testing", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().strip()
            with KafkaConsumer(
                "orders",
                bootstrap_servers=bootstrap,
                group_id="readers",
                auto_offset_reset="earliest",
                consumer_timeout_ms=20_000,
            ) as reader:
                keys = {next(reader).key for _ in range(15)}
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
    assert keys <= {f"customer-{number}".encode() for number in range(10)}
    assert len(keys) > 1
