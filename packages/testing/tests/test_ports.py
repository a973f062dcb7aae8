"""Ports of brokers: two processes never choose the same one."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tandem_kafka_testing.kafka.ports import free_ports

pytestmark = pytest.mark.real_time

#: Each process keeps its ports until it is told to end.
PROGRAM = """
from tandem_kafka_testing.kafka.ports import free_ports
print(*free_ports(150), flush=True)
input()
"""


def test_processes_choose_different_ports() -> None:
    command = [sys.executable, "-c", PROGRAM]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(6)]
    try:
        with ThreadPoolExecutor(len(running)) as pool:
            lines = list(pool.map(lambda each: each.stdout.readline(), running))  # type: ignore[union-attr]
    finally:
        for each in running:
            each.communicate("\n", timeout=20)
    ports = [int(port) for line in lines for port in line.split()]
    assert len(ports) == 6 * 150 == len(set(ports))


def test_a_forked_process_chooses_others_than_its_parent() -> None:
    free_ports(1)
    receive, send = os.pipe()
    forked = os.fork()
    if not forked:
        os.write(send, " ".join(map(str, free_ports(5))).encode())
        os._exit(0)
    os.waitpid(forked, 0)
    theirs = {int(port) for port in os.read(receive, 1_000).split()}
    os.close(receive)
    os.close(send)
    assert len(theirs) == 5
    assert not theirs & set(free_ports(5))
