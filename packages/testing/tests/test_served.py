"""A cluster over TCP: close() releases its resources, and faults are caused by name."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from kafka.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.__main__ import main as serving
from tandem_kafka_testing.served import ServedKafka
from tests.open_files import OPEN_FILES, open_files

pytestmark = pytest.mark.real_time


def test_a_closed_cluster_no_longer_accepts_connections() -> None:
    with ServedKafka() as kafka:
        host, port = kafka.bootstrap.split(":")
        socket.create_connection((host, int(port)), 10.0).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 10.0)


def test_a_cluster_can_be_closed_twice() -> None:
    kafka = ServedKafka()
    kafka.close()
    kafka.close()


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="needs a list of open files")
def test_clusters_that_were_closed_hold_no_descriptors() -> None:
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", b"1")
    before = open_files()
    for _ in range(3):
        with ServedKafka() as kafka:
            kafka.create_topic("orders")
            kafka.produce("orders", b"1")
    assert open_files() <= before + 3


def test_a_fault_is_caused_by_name() -> None:
    with ServedKafka(brokers=2) as kafka:
        kafka.create_topic("orders")
        kafka.cause("lead", topic="orders", partition=0, broker=2)
        assert kafka.perform(lambda cluster: cluster.topics["orders"].partitions[0].leader) == 2
        with pytest.raises(ValueError, match=r"lead: unknown 'node'; allowed: topic"):
            kafka.cause("lead", node=2)
        with pytest.raises(ValueError, match=r"broker=3: the cluster has no such broker, but 1, 2"):
            kafka.cause("lead", broker=3)


def test_a_closed_cluster_says_so() -> None:
    kafka = ServedKafka()
    kafka.close()
    with pytest.raises(RuntimeError, match="the cluster is closed"):
        kafka.produce("orders", b"1")


def test_the_brokers_clock_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    with ServedKafka() as kafka:
        before_ms = time.time_ns() // 1_000_000
        shown_ms = kafka.perform(lambda cluster: cluster.network.clock.wall_ms())
        assert before_ms <= shown_ms <= time.time_ns() // 1_000_000
        ahead_ns = time.time_ns() + 3_600 * 10**9
        monkeypatch.setattr(time, "time_ns", lambda: ahead_ns)
        shown_ms = kafka.perform(lambda cluster: cluster.network.clock.wall_ms())
        assert shown_ms == ahead_ns // 1_000_000


def test_a_real_cluster_has_no_faults_by_name() -> None:
    kafka = ServedKafka("127.0.0.1:1")
    with pytest.raises(RuntimeError, match=r"127.0.0.1:1 is a real cluster"):
        kafka.cause("cut")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"GET / HTTP/1.1",
        bytes.fromhex("0012 0004 00000007 0002 fffe"),  # a client id that is no text
        bytes.fromhex("0003 000c 00000007 ffff 00 ffffff"),  # half a request
        bytes.fromhex("0003 0000 00000007 ffff 00000000"),  # a version that is not simulated
    ],
)
def test_an_invalid_request_ends_its_connection_only(frame: bytes) -> None:
    with ServedKafka() as kafka:
        host, port = kafka.bootstrap.split(":")
        with socket.create_connection((host, int(port)), 10.0) as invalid:
            invalid.sendall(len(frame).to_bytes(4) + frame)
            invalid.settimeout(10.0)
            assert invalid.recv(1) == b""
        kafka.create_topic("orders")
        with KafkaConsumer(bootstrap_servers=kafka.bootstrap) as consumer:
            assert consumer.topics() == {"orders"}


def test_a_topic_that_exists_keeps_its_records() -> None:
    """As on a real cluster."""
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", b"1")
        with pytest.raises(TopicAlreadyExistsError, match="'orders' already exists"):
            kafka.create_topic("orders")
        with pytest.raises(InvalidPartitionsError, match="partitions=0: must be at least 1"):
            kafka.create_topic("empty", 0)
        assert kafka.perform(lambda cluster: cluster.at(TopicPartition("orders", 0)).log.end_offset)


@pytest.mark.parametrize(
    "name", ["", "a b", "..", "a/b", "\N{GREEK SMALL LETTER ALPHA}", "a" * 250]
)
def test_a_topic_whose_name_no_cluster_allows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A consumer could not subscribe to it."""
    with ServedKafka() as kafka, pytest.raises(InvalidTopicError):
        kafka.create_topic(name)
    assert serving(["serve", "--port", "0", "--topic", name]) == 1
    assert capsys.readouterr().err.startswith(f"--topic {name!r}: a name has ASCII letters")


def test_an_option_that_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        serving(["serve", "--port", "abc"])
    assert capsys.readouterr().err.endswith("argument --port: 'abc' is not a whole number\n")


def test_records_need_a_partition() -> None:
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        for topic, partition in (("others", 0), ("orders", 1)):
            with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-{partition} does not"):
                kafka.produce(topic, b"1", partition=partition)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"brokers": 0}, "brokers=0: must be at least 1"),
        ({"port": 65_535, "brokers": 2}, "port=65535: with brokers=2, must be 0 to 65534"),
        ({"port": -1}, "port=-1: with brokers=1, must be 0 to 65535"),
        ({"kafka": "9.9"}, "'9.9' is not simulated"),
    ],
)
def test_a_cluster_that_cannot_be_served_is_rejected(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ServedKafka(**arguments)
