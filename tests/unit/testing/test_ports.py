"""Ports of brokers: two processes never choose the same one."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

#: Each process keeps its ports until it is told to end.
PROGRAM = """
from tandem_kafka.testing.kafka.ports import free_ports
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
