"""Backoff and the state of one kind of request."""

from __future__ import annotations

import pytest

from tandem_kafka.network.backoff import FOREVER_MS, Backoff
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.runtime import Random


def test_a_backoff_doubles_up_to_its_limit_with_jitter() -> None:
    backoff = Backoff(100, 1_000, Random(1))
    pauses = [backoff.next_ms() for _ in range(20)]
    for number, pause in enumerate(pauses):
        plain = min(100 * 2**number, 1_000)
        assert plain * 0.8 - 1 <= pause <= min(plain * 1.2, 1_000)
    assert len(set(pauses)) > 4
    assert backoff.attempts == 20
    backoff.reset()
    assert backoff.next_ms() <= 120


@pytest.mark.behaviour(25)
def test_a_zero_backoff_is_still_a_pause() -> None:
    backoff = Backoff(0, 0, Random(1))
    assert all(backoff.next_ms() >= 1 for _ in range(50))


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(1, 10_000, Random(1))
    assert max(backoff.next_ms() for _ in range(2_000)) <= 10_000


def test_one_request_at_a_time_and_a_pause_after_a_failure() -> None:
    state = RequestState(Backoff(100, 1_000, Random(1)))
    assert state.can_send(0)
    state.sent()
    assert not state.can_send(10_000)
    assert state.wait_ms(10_000) == FOREVER_MS
    state.failed(10_000)
    pause_ms = state.wait_ms(10_000)
    assert 80 <= pause_ms <= 120
    assert not state.can_send(10_000 + pause_ms - 1)
    assert state.can_send(10_000 + pause_ms)
    state.sent()
    state.succeeded()
    assert state.can_send(0)
    state.failed(0)
    state.reset()
    assert state.wait_ms(0) == 0
