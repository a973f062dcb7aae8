"""Liveness: slow handlers, crashes, members that stop polling, static members."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import FencedInstanceIdError, UnreleasedInstanceIdError
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.group_members import (
    PROTOCOLS,
    Member,
    options_of,
    owned,
    rebalance_calls,
)
from tests.integration.polling import Consume, cpu_share
from tests.waiting import wait_until

pytestmark = [pytest.mark.parametrize("protocol", PROTOCOLS), pytest.mark.partitions(2)]

#: Short, so that three of them pass quickly; long enough for a busy machine.
SHORT_SESSION_MS = 2_500


def _with_short_session(kafka: RealKafka, group: str, protocol: str) -> dict[str, Any]:
    """Options of the members; with KIP-848 it is a setting of the group."""
    options = options_of(protocol)
    if protocol == "consumer":
        timeout_ms = str(SHORT_SESSION_MS)
        kafka.admin.configure_group(group, {"consumer.session.timeout.ms": timeout_ms})
    else:
        options.update(session_timeout_ms=SHORT_SESSION_MS, heartbeat_interval_ms=200)
    return options


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def _burn(seconds: float) -> None:
    """Hold the processor, handing the GIL over only when the interpreter takes it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        re.findall(r"\d+", "1 2 3 4" * 50)


@pytest.mark.full("takes long on a real broker")
@pytest.mark.parametrize("work", [_sleep, _burn], ids=["sleeping", "computing"])
def test_a_handler_of_three_session_timeouts_keeps_the_membership(
    kafka: RealKafka,
    topic: str,
    consume: Consume,
    protocol: str,
    work: Callable[[float], None],
) -> None:
    kafka.admin.produce(topic, [b"one"])
    seconds = 3 * SHORT_SESSION_MS / 1_000
    options = _with_short_session(kafka, f"group-{topic}", protocol)
    member = Member(consume(group_id=f"group-{topic}", **options), [topic], lambda _: work(seconds))
    wait_until(lambda: member.records)
    before = list(member.generations)
    wait_until(lambda: _committed(kafka, topic) == 1)
    member.stop()
    assert member.error is None
    assert member.generations[: len(before)] == before
    assert len([g for g in member.generations if g > 0]) == 1
    assert [what for what, _ in rebalance_calls(member.listener)] == ["assigned", "revoked"]


def _committed(kafka: RealKafka, topic: str) -> int:
    return kafka.admin.committed(f"group-{topic}", topic)


_CRASHER = """
import sys
from tests.integration.group_members import options_of
from tandem_kafka import KafkaConsumer
bootstrap, topic, protocol = sys.argv[1:]
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id=f"group-{topic}", **options_of(protocol)
)
while not consumer.assignment():
    consumer.poll(timeout_ms=100)
print("in", flush=True)
while True:
    consumer.poll(timeout_ms=100)
"""


@pytest.mark.behaviour(89)
def test_the_partitions_of_a_killed_member_are_taken_over(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    crasher = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _CRASHER, kafka.bootstrap(), topic, protocol],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert crasher.stdout is not None
    try:
        assert crasher.stdout.readline() == "in\n"
        member = Member(consume(group_id=f"group-{topic}", **options_of(protocol)), [topic])
        wait_until(lambda: len(owned(member)) == 1)
    finally:
        crasher.kill()
        crasher.wait(30)
        crasher.stdout.close()
    wait_until(lambda: len(owned(member)) == 2)
    member.stop()
    assert member.error is None


@contextmanager
def rejected(
    topic: str, consume: Consume, protocol: str
) -> Iterator[tuple[KafkaConsumer, type[Exception]]]:
    """Start two members with the same instance ID; yields that of them that fails, and its error.

    While it raises it, the other one goes on.
    """
    options = {**options_of(protocol), "group_instance_id": "one"}
    first = Member(consume(group_id=f"group-{topic}", **options), [topic])
    wait_until(lambda: len(owned(first)) == 2)
    second = Member(consume(group_id=f"group-{topic}", **options), [topic])
    wait_until(lambda: first.error or second.error)
    loser, error = (first, FencedInstanceIdError), (second, UnreleasedInstanceIdError)
    member, expected = error if protocol == "consumer" else loser
    assert isinstance(member.error, expected)
    yield member.consumer, expected
    for each in (first, second):
        each.stop(autocommit=False, leave_group="leave")


@pytest.mark.full("it measures CPU time")
def test_a_rejected_member_does_not_spin(topic: str, consume: Consume, protocol: str) -> None:
    with rejected(topic, consume, protocol) as (consumer, expected):

        def loop() -> None:
            """An application that logs the error and polls again."""
            for _ in range(20):
                with pytest.raises(expected):
                    consumer.poll(timeout_ms=1_000)
                time.sleep(0.1)

        assert cpu_share(loop) < 0.3
