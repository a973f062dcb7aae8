"""Addresses that a cluster advertises."""

from __future__ import annotations

import pytest

from tandem_kafka.types import Node
from tandem_kafka.wire.hosts import address_problem, advertised

INJECTED = "x:1 HTTP/1.1\r\nHost: x\r\n\r\nGET http://internal/ HTTP/1.1\r\nX: y"


@pytest.mark.parametrize(
    "host",
    [
        "broker-1",
        "broker_1.internal",
        "b-1.Kafka.eu-west-1.amazonaws.com",
        "kafka.example.com.",
        "10.0.0.1",
        "::1",
        "[2001:db8::1]",
        "fe80::1%eth0",
        "kafka.münchen.example",
        "b" * 63 + ".example",
    ],
)
def test_names_and_addresses_are_kept(host: str) -> None:
    assert advertised(1, host, 9092, "a rack") == Node(1, host, 9092, "a rack")
    assert address_problem(host, 9092) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        INJECTED,
        "a b",
        "a\0b",
        "a\x1b[2Jb",
        "a\u2028b",
        "a'b",
        "a/b",
        "a@b",
        "a..b",
        "b" * 64,
        ".".join(["b" * 60] * 5),
        "::1\r\n",
        "::1%eth0\r\nX: y",
        "[::1]:1 HTTP/1.1\r\n[::1]",
        "kafka.example.com\n",
        "x" * 1_000_000,
    ],
)
def test_anything_else_is_quoted_and_not_used(host: str) -> None:
    shown = advertised(1, host, 9092).host
    assert shown.isprintable()
    assert shown.isascii()
    assert shown.startswith("'")
    assert len(shown) < 100
    for each in (host, shown):
        problem = address_problem(each, 9092)
        assert problem is not None
        assert "not a valid name or address; check bootstrap_servers" in problem


@pytest.mark.parametrize("port", [-1, 0, 65_536, 2**31 - 1])
def test_a_port_that_is_none(port: int) -> None:
    assert "the port is not between 1 and 65535" in (address_problem("kafka", port) or "")
