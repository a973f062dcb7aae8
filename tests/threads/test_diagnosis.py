"""The diagnosis on a signal appears while the main thread is stuck in C code."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer

pytestmark = pytest.mark.real_time

PROGRAM = """
import os, signal, threading, time
import tandem_kafka
from tandem_kafka_testing import simulated_consumer

tandem_kafka.diagnose_on_signal()
consumer = simulated_consumer("orders", group_id="readers", client_id="billing",
                              sasl_plain_password="geheim")
consumer.poll(100)
begun = time.monotonic()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
sum(range({count}))  # no Python handler can run meanwhile
print("stuck until", time.monotonic() - begun)
time.sleep(1)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="the system has no SIGUSR1")
def test_a_signal_prints_the_diagnosis_of_every_consumer() -> None:
    program = PROGRAM.format(count=50_000_000)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    text = ended.stderr
    assert text.startswith("sasl_plain_password: no effect") or "consumer 'billing'" in text
    assert "consumer 'billing'" in text
    assert "alive: yes" in text
    assert "group 'readers': state " in text
    assert "thread MainThread:" in text
    assert "geheim" not in text


def test_the_thread_that_polls_comes_first_and_threads_of_the_package_last() -> None:
    options: Any = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 0}
    seen, end = threading.Event(), threading.Event()

    def handle() -> None:
        with KafkaConsumer("orders", **options, max_poll_records=7) as consumer:
            found.append(consumer)
            seen.set()
            end.wait(60)

    found: list[KafkaConsumer] = []
    thread = threading.Thread(target=handle, name="handles orders")
    thread.start()
    seen.wait(60)
    text = found[0].diagnose()
    end.set()
    thread.join(60)
    names = re.findall(r"^thread (.*):$", text, re.MULTILINE)
    assert names[:2] == ["handles orders", "MainThread"]
    assert names[-1].startswith("tandem-kafka-network")
    assert "\noptions:\n" in text
    assert "\n  max_poll_records=7\n" in text


def test_without_a_consumer_it_says_so() -> None:
    program = (
        "import os, signal, time, tandem_kafka; tandem_kafka.diagnose_on_signal(); "
        "os.kill(os.getpid(), signal.SIGUSR1); time.sleep(0.5)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stderr == "no consumer exists in this process\n"
