"""A program with green threads, run by `test_green_threads.py` in its own process.

Arguments: the library, when to patch (`before` or `after` the import of tandem_kafka), bootstrap
servers, a topic with 20 records in two partitions. Prints one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import time
from typing import Any

LIBRARY, WHEN, BOOTSTRAP, TOPIC = sys.argv[1:5]
LINES: list[str] = []


class Lines(logging.Handler):
    """Keeps log lines."""

    def emit(self, record: logging.LogRecord) -> None:
        LINES.append(record.getMessage())


class Ticks:
    """A green thread that counts while others wait."""

    def __init__(self, library: Any) -> None:
        self.count = 0
        self._sleep = library.sleep
        library.spawn(self._run)

    def _run(self) -> None:
        while True:
            self._sleep(0.01)
            self.count += 1


def patch() -> Any:
    """Patch everything; returns the library."""
    if LIBRARY == "gevent":
        importlib.import_module("gevent.monkey").patch_all()
        return importlib.import_module("gevent")
    eventlet = importlib.import_module("eventlet")
    eventlet.monkey_patch()
    return eventlet


def both() -> tuple[Any, Any]:
    """Import and patch in the requested order."""
    if WHEN == "after":
        tandem_kafka = importlib.import_module("tandem_kafka")
        return patch(), tandem_kafka
    return patch(), importlib.import_module("tandem_kafka")


def read(consumer: Any, count: int) -> list[str]:
    """Poll until there is this number of values."""
    values: list[str] = []
    end = time.monotonic() + 30
    while len(values) < count and time.monotonic() < end:
        for records in consumer.poll(timeout_ms=500).values():
            values += [record.value.decode() for record in records]
    return sorted(values)


def woken(library: Any, consumer: Any, error: type[Exception]) -> bool:
    """Start a long poll that another green thread ends."""
    library.spawn(lambda: (library.sleep(0.1), consumer.wakeup()))
    try:
        consumer.poll(timeout_ms=20_000)
    except error:
        return True
    return False


def main() -> None:
    """Read, commit, wait, be woken, close."""
    library, tandem_kafka = both()
    logger = logging.getLogger("tandem_kafka")
    logger.addHandler(Lines())
    logger.setLevel(logging.INFO)
    ticks = Ticks(library)
    consumer = tandem_kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id=f"group-of-{TOPIC}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    result: dict[str, Any] = {"values": read(consumer, 20)}
    consumer.commit()
    result["committed"] = {tp.partition: consumer.committed(tp) for tp in consumer.assignment()}
    before = ticks.count
    consumer.poll(timeout_ms=500)
    result["ticks"] = ticks.count - before
    result["woken"] = woken(library, consumer, tandem_kafka.errors.WakeupError)
    consumer.close()
    result["lines"] = LINES
    print(json.dumps(result))


main()
