"""Sessions of members end on time, with few timers."""

from __future__ import annotations

import pytest

from packages.testing.tests.coordinated import GROUP, Coordinated
from tandem_kafka_testing.clock import NEVER_MS


def until(group: Coordinated, when_ms: int) -> int:
    """Let time pass; returns the number of times at which a timer was due."""
    clock, network = group.simulation.clock, group.simulation.network
    moments = 0
    while clock.now_ms() < when_ms:
        clock.advance_to(min(when_ms, network.next_ms))
        moments += network.next_ms <= clock.now_ms()
        network.deliver()
    return moments


@pytest.fixture
def group() -> Coordinated:
    group = Coordinated()
    group.cluster.configure_group(GROUP, session_timeout_ms=6_000)
    group.join("m")
    return group


def test_a_session_ends_at_its_timeout_after_the_last_heartbeat(group: Coordinated) -> None:
    clock = group.simulation.clock
    for _ in range(20):
        until(group, clock.now_ms() + 1_700)
        group.beat("m")
    last_ms = clock.now_ms()
    until(group, last_ms + 5_999)
    assert "m" in group.group.members
    until(group, last_ms + 6_000)
    assert "m" not in group.group.members


def test_heartbeats_share_one_timer(group: Coordinated) -> None:
    clock = group.simulation.clock
    moments = 0
    for _ in range(600):
        moments += until(group, clock.now_ms() + 100)
        group.beat("m")
    assert moments <= 60_000 / 6_000 + 1


def test_a_shortened_session_ends_earlier(group: Coordinated) -> None:
    clock = group.simulation.clock
    group.cluster.configure_group(GROUP, session_timeout_ms=45_000)
    group.beat("m")
    until(group, clock.now_ms() + 1_000)
    group.cluster.configure_group(GROUP, session_timeout_ms=2_000)
    group.beat("m")
    until(group, clock.now_ms() + 1_500)
    group.beat("m")  # which is later than it was, and earlier than at first
    began_ms = clock.now_ms()
    until(group, began_ms + 1_999)
    assert "m" in group.group.members
    until(group, began_ms + 2_000)
    assert "m" not in group.group.members
    until(group, began_ms + 60_000)
    assert group.simulation.network.next_ms == NEVER_MS


def test_sessions_begin_again_after_a_failover(group: Coordinated) -> None:
    clock = group.simulation.clock
    until(group, clock.now_ms() + 4_000)
    group.cluster.fail_over(GROUP, 2)
    began_ms = clock.now_ms()
    until(group, began_ms + 5_999)
    assert "m" in group.group.members
    until(group, began_ms + 6_000)
    assert "m" not in group.group.members
