"""The process of a member of a share group: it measures itself, and prints its figures as JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

__all__: list[str] = []

_WAIT_S = 1.0
_WORK_S = 0.005
_WORKERS = 64
_LOOK_S = 0.05
#: The pace of a consumer, its connections and its group settle before the measurement.
_WARM = 0.1

#: Yields the number of records that were handled together.
Way = Callable[[str, str, str], Iterator[int]]


def _tandem(bootstrap: str, topic: str, group: str, **options: Any) -> Any:
    from tandem_kafka import ShareConsumer

    return ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap, **options)


def _poll(bootstrap: str, topic: str, group: str) -> Iterator[int]:
    with _tandem(bootstrap, topic, group) as consumer:
        while True:
            for batch in consumer.poll(_WAIT_S * 1_000).values():
                for record in batch:
                    _ = record.value
                yield len(batch)


def _iterate(bootstrap: str, topic: str, group: str) -> Iterator[int]:
    with _tandem(bootstrap, topic, group) as consumer:
        for record in consumer:
            _ = record.value
            yield 1


def _explicit(bootstrap: str, topic: str, group: str) -> Iterator[int]:
    with _tandem(bootstrap, topic, group, acknowledgement="explicit") as consumer:
        while True:
            for batch in consumer.poll(_WAIT_S * 1_000).values():
                for record in batch:
                    _ = record.value
                    record.accept()
                yield len(batch)


def _workers(bootstrap: str, topic: str, group: str) -> Iterator[int]:
    from tandem_kafka.workers import ShareWorkers

    with _tandem(bootstrap, topic, group, acknowledgement="explicit") as consumer:
        workers = ShareWorkers(consumer, lambda _: time.sleep(_WORK_S), workers=_WORKERS)
        running, seen = threading.Thread(target=workers.run), 0
        running.start()
        try:
            while True:
                time.sleep(_LOOK_S)
                done = workers.done
                yield done - seen
                seen = done
        finally:
            workers.stop()
            running.join()


def _confluent(bootstrap: str, group: str, **options: str) -> Any:
    from confluent_kafka import ShareConsumer

    named = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": "0", **options}
    return closing(ShareConsumer(named))


def _confluent_poll(bootstrap: str, topic: str, group: str) -> Iterator[int]:
    with _confluent(bootstrap, group) as consumer:
        consumer.subscribe([topic])
        while True:
            messages = consumer.poll(_WAIT_S)
            for message in messages:
                _ = message.value()
            yield len(messages)


def _confluent_explicit(bootstrap: str, topic: str, group: str) -> Iterator[int]:
    with _confluent(bootstrap, group, **{"share.acknowledgement.mode": "explicit"}) as consumer:
        consumer.subscribe([topic])
        while True:
            messages = consumer.poll(_WAIT_S)
            for message in messages:
                _ = message.value()
                consumer.acknowledge(message)
            yield len(messages)


WAYS: dict[tuple[str, str], Way] = {
    ("tandem", "implicit"): _poll,
    ("tandem-loop", "implicit"): _iterate,
    ("confluent", "implicit"): _confluent_poll,
    ("tandem", "explicit"): _explicit,
    ("confluent", "explicit"): _confluent_explicit,
    ("tandem", "workers"): _workers,
}


def main() -> None:
    """Run as `process.py <client> <way> <bootstrap> <topic> <group> <records>`."""
    client, way, bootstrap, topic, group, records = sys.argv[1:]
    left, warm = int(records), int(int(records) * _WARM)
    began, cpu, measured = 0, 0, 0
    for count in WAYS[client, way](bootstrap, topic, group):
        left -= count
        if not began and left <= int(records) - warm:
            began, cpu, measured = time.monotonic_ns(), time.process_time_ns(), left
        if left <= 0:
            break
    took_s = (time.monotonic_ns() - began) / 1e9
    figures = {
        "records_per_s": (measured - left) / took_s,
        "cpu_us_per_record": (time.process_time_ns() - cpu) / 1e3 / (measured - left),
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
