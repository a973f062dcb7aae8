"""Processes in which gevent or eventlet has put green threads in the place of real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing.served import ServedKafka

pytestmark = pytest.mark.real_time

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("green_program.py")


def run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", str(PROGRAM), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_a_group_is_read_while_other_green_threads_run(
    kafka_broker: ServedKafka, library: str, when: str
) -> None:
    topic = kafka_broker.create_topic(f"green-{library}-{when}", 2)
    for partition in (0, 1):
        values = [f"{partition}-{number}".encode() for number in range(10)]
        kafka_broker.produce(topic, *values, partition=partition)
    result = run(library, when, kafka_broker.bootstrap, topic)
    assert result["values"] == [f"{p}-{number}" for p in (0, 1) for number in range(10)]
    assert result["committed"] == {"0": 10, "1": 10}
    assert result["ticks"] >= 10
    assert result["woken"]
    warnings = [line for line in result["lines"] if "using the Python " in line]
    assert len(warnings) == 1
    if native_available:
        assert f"threading patched by {library}" in warnings[0]


def test_the_owner_of_a_consumer_is_recognised_among_green_threads() -> None:
    """A green thread that waits inside a method is on the stack of no real thread."""
    program = """
import gevent.monkey
gevent.monkey.patch_all()
import gevent
import weakref
from tandem_kafka.runtime.callers import OwnerLock
lock = OwnerLock()
gone = weakref.proxy(set())

def inside():
    held = lock.acquire()
    gevent.sleep(0.01)
    held.release()

def interrupted():
    lock.acquire()

def is_inside(frame):
    return frame.f_code is inside.__code__

first = gevent.spawn(inside)
gevent.sleep(0)
assert lock.acquire() is None
assert lock.take_over(is_inside).name == "another green thread"
first.join()
lock.acquire().release()
gevent.spawn(interrupted).join()
assert lock.acquire() is None
lock.take_over(is_inside).release()
"""
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60, cwd=ROOT
    )
