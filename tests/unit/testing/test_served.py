"""The embedded cluster over TCP: close() releases its resources."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tandem_kafka.testing.served import ServedKafka


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_closed_cluster_no_longer_accepts_connections() -> None:
    with ServedKafka() as kafka:
        host, port = kafka.bootstrap.split(":")
        socket.create_connection((host, int(port)), 10.0).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 10.0)


def test_a_cluster_can_be_closed_twice() -> None:
    kafka = ServedKafka()
    kafka.close()
    kafka.close()


@pytest.mark.skipif(sys.platform != "linux", reason="counts the entries of /proc/self/fd")
def test_clusters_that_were_closed_hold_no_descriptors() -> None:
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", b"1")
    before = _descriptors()
    for _ in range(3):
        with ServedKafka() as kafka:
            kafka.create_topic("orders")
            kafka.produce("orders", b"1")
    assert _descriptors() <= before + 3
