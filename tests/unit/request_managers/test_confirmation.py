"""When a member of KIP-848 holds records back, and for how long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.request_managers.membership.kip848.confirmation import (
    HOLD_MS,
    SESSION_HEARTBEATS,
    Confirmation,
)

INTERVAL_MS = 5_000
SESSION_MS = SESSION_HEARTBEATS * INTERVAL_MS


class World:
    """A member with one partition, whose leader is broker 1."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(leader_id=1, unconfirmed=False, fetchable=True)
        snapshot = SimpleNamespace(nodes={})
        self.metadata = SimpleNamespace(unreachable=frozenset(), snapshot=snapshot)
        subscription = SimpleNamespace(assigned={"orders": self.state})
        idle = SimpleNamespace(wait_ms=lambda _: 0)
        context: Any = SimpleNamespace(
            metadata=self.metadata,
            subscription=subscription,
            buffer=SimpleNamespace(is_full=False),
            request_state=lambda: idle,
        )
        self.confirmation = Confirmation(context)

    def held(self, now_ms: int, *, reachable: bool) -> bool:
        self.metadata.unreachable = frozenset() if reachable else frozenset({1})
        self.confirmation.poll(now_ms, INTERVAL_MS)
        return self.state.unconfirmed


@pytest.fixture
def world() -> World:
    made = World()
    made.confirmation.confirm(0, 0, INTERVAL_MS)
    return made


def test_the_hold_lasts_from_when_the_leader_can_be_reached_again(world: World) -> None:
    assert not world.held(SESSION_MS - 1, reachable=False)
    assert world.held(SESSION_MS, reachable=False)
    back_ms = SESSION_MS + HOLD_MS - 1  # the managers are polled then, and were not in between
    assert world.held(back_ms, reachable=True)
    assert world.held(back_ms + HOLD_MS - 1, reachable=True)
    assert not world.held(back_ms + HOLD_MS, reachable=True)


def test_a_late_response_confirms_from_when_its_heartbeat_was_sent(world: World) -> None:
    sent_ms, arrived_ms = 10_000, 40_000
    world.confirmation.confirm(arrived_ms, arrived_ms - sent_ms, INTERVAL_MS)
    assert not world.held(sent_ms + SESSION_MS - 1, reachable=False)
    assert world.held(sent_ms + SESSION_MS, reachable=False)


def test_a_response_from_an_ended_session_does_not_end_the_hold(world: World) -> None:
    assert world.held(SESSION_MS, reachable=False)
    world.confirmation.confirm(1_000 + SESSION_MS, SESSION_MS, INTERVAL_MS)
    assert world.state.unconfirmed
    world.confirmation.confirm(50_005, 5, INTERVAL_MS)
    assert not world.state.unconfirmed
