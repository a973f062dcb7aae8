"""What the pages read: topics full of orders and payments; and how their programs are run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tandem_kafka_testing.serving import order
from tests.sources import PYTHONPATH

TOPICS = ("orders", "payments")
PARTITIONS = 4
RECORDS = 100
_PERIOD_S = 0.02


def _write(producer: Producer, number: int) -> None:
    key, value = order(number)
    for topic in TOPICS:
        producer.produce(topic, value, key)
    producer.poll(0)


@contextmanager
def orders_arrive(bootstrap: str) -> Iterator[None]:
    """Writes the records that each page may expect, and more until the page has ended."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    for number in range(RECORDS):
        _write(producer, number)
    assert producer.flush(30.0) == 0
    ended = threading.Event()

    def go_on() -> None:
        number = RECORDS
        while not ended.wait(_PERIOD_S):
            _write(producer, number)
            number += 1

    writer = threading.Thread(target=go_on)
    writer.start()
    yield
    ended.set()
    writer.join()
    assert producer.flush(30.0) == 0


def run_python(folder: Path, *arguments: str, timeout_s: float = 160) -> None:
    """Run Python with this tree in a folder; a failure shows what the program printed."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": PYTHONPATH,
            "PYTHONFAULTHANDLER": "1",
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
