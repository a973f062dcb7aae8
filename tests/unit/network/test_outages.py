"""Which failures of an outage are logged."""

from __future__ import annotations

from tandem_kafka.network.outages import LINES, WINDOW_MS, Outage, Outages
from tandem_kafka.types import Node


def test_the_first_failure_reminders_and_the_end_are_logged() -> None:
    outage = Outage()
    logged = [second for second in range(1_000) if outage.failed(second * 1_000)]
    assert logged == [0, 60, 180, 420, 900]
    assert outage.lasted_s == 999
    assert outage.failures == 1_000
    assert outage.succeeded(1_000_000)
    assert outage.lasted_s == 1_000
    assert not outage.succeeded(1_000_001)


def test_a_short_outage_is_not_logged_with_patience() -> None:
    outage = Outage(patience_ms=3_000)
    assert not outage.failed(0)
    assert not outage.failed(2_999)
    assert not outage.succeeded(3_000)
    assert not outage.failed(4_000)
    assert outage.failed(7_000)
    assert outage.succeeded(7_001)


def test_a_final_error_needs_no_patience() -> None:
    outage = Outage(patience_ms=3_000)
    assert outage.failed(0, patient=False)


def test_flapping_is_limited_and_the_last_state_is_logged() -> None:
    outage = Outage()
    lines = []
    for second in range(0, 40, 2):
        if outage.failed(second * 1_000):
            lines.append((second, "down"))
        if outage.succeeded(second * 1_000 + 1_000):
            lines.append((second + 1, "up"))
    assert len(lines) == LINES
    while not outage.failed(second * 1_000):
        second += 1
    assert WINDOW_MS // 1_000 <= second <= WINDOW_MS // 1_000 + 3
    assert outage.succeeded(second * 1_000 + 60_000)


def test_a_bootstrap_server_and_a_broker_share_an_outage() -> None:
    outages = Outages()
    outage = outages.of(Node(-1, "kafka", 9092))
    assert outage.name == "bootstrap server kafka:9092"
    assert outages.of(Node(7, "kafka", 9092)) is outage
    assert outage.name == "broker 7 (kafka:9092)"
    assert outages.of(Node(-1, "kafka", 9092)).name == "broker 7 (kafka:9092)"
    assert outages.of(Node(7, "kafka", 9093)) is not outage
