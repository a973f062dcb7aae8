"""A process that writes records at an even pace; each value is the time of its creation."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer

__all__: list[str] = []


def pace(bootstrap: str, topic: str, partitions: int, count: int, per_second: float) -> None:
    """Write `count` records."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.list_topics(topic, timeout=30.0)
    begin = time.monotonic()
    for number in range(count):
        pause = begin + number / per_second - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        value = b"%d" % time.monotonic_ns()
        producer.produce(topic, value=value, partition=number % partitions)
        producer.poll(0)
    if producer.flush(30.0):
        raise TimeoutError("not all records were delivered")


if __name__ == "__main__":
    pace(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
