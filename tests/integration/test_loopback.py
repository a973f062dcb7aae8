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
from tandem_kafka.testing.cluster import SimCluster
from tests.integration.loopbacks import Loopback

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 40
ROUNDS = 12
SEEDS = range(4)
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


def consumer(loopback: Loopback, **options: Any) -> KafkaConsumer:
    chosen: dict[str, Any] = {
        "group_id": "readers",
        "auto_offset_reset": "earliest",
        "reconnect_backoff_ms": 5,
        "retry_backoff_ms": 5,
        "request_timeout_ms": 2_000,
        **options,
    }
    return KafkaConsumer(TOPIC, bootstrap_servers=loopback.bootstrap, **chosen)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_commits_and_goes_on(transport: str, protocol: str) -> None:
    del transport
    with Loopback() as loopback:
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
    with Loopback() as loopback:
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


class Faults:
    """Disturbs the cluster, one fault at a time, as its seed decides."""

    def __init__(self, seed: int, brokers: int) -> None:
        self._random = Random(seed)
        self._brokers = range(1, brokers + 1)

    def strike(self, cluster: SimCluster) -> None:
        """Begin a fault; an earlier one ends."""
        network = cluster.network
        network.heal()
        broker = cluster.brokers[self._random.choice(self._brokers)]
        kind = self._random.choice(["cut", "refuse", "loss", "stall", "garble", "move", "none"])
        if kind == "cut":
            network.cut(broker.address)
        elif kind == "refuse":
            network.conditions.refuse = 0.5
        elif kind == "loss":
            network.conditions.loss = 0.1
        elif kind == "stall":
            network.slow[broker.address] = 300
        elif kind == "garble":
            network.alter_response = self._garbled
        elif kind == "move":
            for number in range(PARTITIONS):
                cluster.move_leader(
                    TopicPartition(TOPIC, number), self._random.choice(self._brokers)
                )

    def _garbled(self, frame: bytes) -> bytes:
        """Return a response with another correlation id, or without its last bytes."""
        if self._random.random() < 0.8 or len(frame) < 8:
            return frame
        if self._random.random() < 0.5:
            return bytes([frame[0] ^ 0x40]) + frame[1:]
        return frame[: self._random.randrange(4, len(frame))]


@pytest.mark.parametrize("seed", SEEDS)
def test_under_faults_every_record_arrives_once_and_in_order(transport: str, seed: int) -> None:
    """Without a group nothing is read again, so each record must arrive exactly once."""
    del transport
    read: dict[int, list[int]] = defaultdict(list)
    with Loopback(seed, brokers=2) as loopback:
        loopback.perform(create)
        faults = Faults(seed, brokers=2)
        with consumer(loopback, group_id=None) as reader:
            for number in range(ROUNDS):
                begin = number * RECORDS
                loopback.perform(faults.strike)
                loopback.perform(lambda cluster, at=begin: produce(cluster, at, at + RECORDS))
                read_for(reader, read, 0.1, begin + RECORDS)
            loopback.perform(lambda cluster: cluster.network.heal())
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
    arguments = ["serve", "--simulated", "--records", "5", "--per-second", "50"]
    command = [sys.executable, "-m", "tandem_kafka.testing", *arguments]
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
