"""Applications that hold the GIL for longer than a session, in one call into C.

Neither thread of the consumer can run meanwhile: the native transport sends its heartbeats.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import (
    PROTOCOLS,
    SESSION_TIMEOUT_MS,
    options_of,
    rebalance_calls,
)
from tests.integration.polling import Consume, Listener, poll_until, read_all

pytestmark = [
    pytest.mark.full("takes long on a real broker"),
    pytest.mark.skipif(not native_available, reason="only the native transport can do it"),
    pytest.mark.parametrize("protocol", PROTOCOLS),
    pytest.mark.partitions(2),
    pytest.mark.timeout(300),
]

SHORT_SESSION_MS = 1_000


def hold_the_gil(seconds: float) -> float:
    """Sleep without letting go of the GIL; returns when that was over."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return time.monotonic()


def options(protocol: str, **more: Any) -> dict[str, Any]:
    """Short sessions where the client may choose."""
    chosen_broker = options_of(protocol)
    if protocol != "consumer":
        chosen_broker.update(session_timeout_ms=SHORT_SESSION_MS, heartbeat_interval_ms=200)
    return {**chosen_broker, **more}


def session_s(protocol: str) -> float:
    return (SESSION_TIMEOUT_MS if protocol == "consumer" else SHORT_SESSION_MS) / 1000


def join_group(
    consume: Consume, topic: str, count: int, **options: Any
) -> tuple[KafkaConsumer, Listener]:
    consumer = consume(group_id=f"group-{topic}", **options)
    listener = Listener()
    consumer.subscribe([topic], listener=listener)
    poll_until(consumer, lambda: len(consumer.assignment()) == count)
    return consumer, listener


_OTHER = """
import sys, time
from tests.integration.group_members import options_of
from tandem_kafka import KafkaConsumer
bootstrap, topic, protocol = sys.argv[1:]
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id=f"group-{topic}", **options_of(protocol)
)
held = 0
while True:
    consumer.poll(timeout_ms=100)
    if len(consumer.assignment()) != held:
        held = len(consumer.assignment())
        print(held, time.monotonic(), flush=True)
"""


@contextmanager
def another_member(kafka: RealKafka, topic: str, protocol: str) -> Iterator[subprocess.Popen[str]]:
    """A member in its own process that reports the number of its partitions, with the time."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _OTHER, kafka.bootstrap(), topic, protocol],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


def when_it_had(process: subprocess.Popen[str], count: int) -> float:
    assert process.stdout is not None
    for line in process.stdout:
        held, moment = line.split()
        if int(held) == count:
            return float(moment)
    raise AssertionError("the other member has ended")


def test_three_session_timeouts_keep_the_membership(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    consumer, listener = join_group(consume, topic, 2, **options(protocol))
    kafka.admin.produce(topic, [Record(b"one", partition=0)])
    generation = consumer.group_metadata().generation_id
    hold_the_gil(3 * session_s(protocol))
    assert [record.value for record in read_all(consumer, 1)] == [b"one"]
    consumer.commit()
    assert consumer.committed(TopicPartition(topic, 0)) == 1
    hold_the_gil(1.5 * session_s(protocol))
    consumer.poll(timeout_ms=200)
    consumer.commit()
    assert consumer.group_metadata().generation_id == generation
    assert [what for what, _ in rebalance_calls(listener)] == ["assigned"]


def test_a_member_joins_a_missed_rebalance_afterwards(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    consumer, listener = join_group(consume, topic, 2, **options(protocol))
    with another_member(kafka, topic, protocol) as other:
        hold_the_gil(max(6.0, 2 * session_s(protocol)))
        poll_until(consumer, lambda: len(consumer.assignment()) == 1)
        when_it_had(other, 1)
        assert "lost" not in [what for what, _ in rebalance_calls(listener)]
        consumer.commit()


def test_a_member_that_is_away_beyond_the_limit_is_replaced(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    consumer, listener = join_group(
        consume, topic, 2, **options(protocol, max_poll_interval_ms=2_000)
    )
    with another_member(kafka, topic, protocol) as other:
        poll_until(consumer, lambda: len(consumer.assignment()) == 1)
        back = hold_the_gil(2.5 + 2.5 * session_s(protocol) + 2.0)
        assert when_it_had(other, 2) < back
        poll_until(consumer, lambda: "lost" in [what for what, _ in rebalance_calls(listener)])
        poll_until(consumer, lambda: len(consumer.assignment()) == 1)
