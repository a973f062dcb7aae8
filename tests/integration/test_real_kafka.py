"""The real Kafka that users start: its options, its end, and `serve --kafka`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import TopicAuthorizationFailedError
from tandem_kafka_testing.kafka import KAFKA_VERSION, RealKafka
from tests.integration.polling import read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.full("starts brokers of its own")

ROOT = Path(__file__).resolve().parents[2]

USER = """
import json, sys, time
from tandem_kafka_testing.kafka import RealKafka

with RealKafka(brokers=3) as kafka:
    print(json.dumps([kafka.bootstrap(), str(kafka.certificates.folder.parent)]), flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def refused(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 1.0).close()
    except ConnectionRefusedError:
        return True
    except (TimeoutError, ConnectionResetError):  # it is about to end
        pass
    return False


def test_no_broker_outlives_a_process_that_is_killed() -> None:
    with running("-c", USER) as process:
        bootstrap, folder = json.loads(line(process))
        brokers = bootstrap.split(",")
        assert not any(map(refused, brokers))
        process.kill()
        wait_until(lambda: all(map(refused, brokers)), "the end of three brokers")
        wait_until(lambda: not os.path.exists(folder), "the removal of their data")  # noqa: PTH110


@pytest.mark.parametrize("security", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_the_options_of_a_secured_kafka(security: str) -> None:
    with RealKafka(security=security, authorizer=True) as kafka:
        topic = kafka.admin.new_topic("secured")
        kafka.admin.produce(topic, [b"1", b"2"])
        options = kafka.options()
        assert options["security_protocol"] == security
        user = {} if security == "SSL" else {"group_id": topic}
        with KafkaConsumer(topic, auto_offset_reset="earliest", **options, **user) as consumer:
            if security == "SSL":  # its user is the certificate's, who has no permissions
                with pytest.raises(TopicAuthorizationFailedError):
                    consumer.poll(60_000)
            else:
                assert [record.value for record in read_all(consumer, 2)] == [b"1", b"2"]


def test_a_listener_that_is_unknown() -> None:
    with pytest.raises(ValueError, match=r"security='TLS' is not a listener; give one of .*'SSL'"):
        RealKafka(security="TLS")


def test_serve_kafka(kafka: RealKafka) -> None:
    del kafka  # it is in the cache then
    command = ("-m", "tandem_kafka_testing", "serve", "--kafka", "--records=20", "--per-second=50")
    with running(*command) as process:
        address = line(process)
        assert "'orders': 4 partitions, 20 records (orders), 50 more" in line(process)
        with KafkaConsumer(
            "orders", bootstrap_servers=address, auto_offset_reset="earliest"
        ) as consumer:
            orders = [json.loads(record.value or b"") for record in read_all(consumer, 40)]
        assert {order["order"] for order in orders} >= set(range(20))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert refused(address)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--kafka", "--release=2.8"],
            "--release is for the simulated cluster; leave it or --kafka out",
        ),
        (
            ["--kafka", "--port=9092"],
            "--port is for the simulated cluster; leave it or --kafka out",
        ),
        (["--kafka=3.1.0"], "version='3.1.0' is too old; give 3.5.0 or a newer version"),
    ],
)
def test_serve_kafka_refuses(options: list[str], text: str) -> None:
    command = [sys.executable, "-m", "tandem_kafka_testing", "serve", *options]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, check=False, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith(text)


def test_the_fixtures_start_the_newest(kafka: RealKafka, kafka_topic: str) -> None:
    wanted = os.environ.get("TANDEM_KAFKA_TEST_VERSION", KAFKA_VERSION)
    assert kafka.version == wanted
    described = kafka.admin.client.list_topics(kafka_topic, timeout=20.0)
    assert len(described.topics[kafka_topic].partitions) == 1


@pytest.mark.kafka_topic(3)
def test_the_marker_sets_the_number_of_partitions(kafka: RealKafka, kafka_topic: str) -> None:
    described = kafka.admin.client.list_topics(kafka_topic, timeout=20.0)
    assert len(described.topics[kafka_topic].partitions) == 3
