"""The end of ShareWorkers after Ctrl-C."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tandem_kafka.workers import ShareWorkers
from tests.simulation.test_share_groups import LOCK_MS, places, sharing, take

RELEASED = [(0, 2), (1, 2), (2, 2)]


def test_records_that_were_not_submitted_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C came between poll() and the threads, and their locks were renewed for 10 minutes."""
    with sharing("submit", brokers=1) as (simulation, start):

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(ShareWorkers, "_submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ShareWorkers(start(), print).run()
        began_ms = simulation.clock.now_ms()
        assert places(take(start(), 3)) == RELEASED
        assert simulation.clock.now_ms() - began_ms < LOCK_MS // 2


def test_a_second_interrupt_ends_the_wait_for_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It left their records locked."""
    begun, end = threading.Barrier(4), threading.Event()

    def handle(_: Any) -> None:
        begun.wait(60)
        end.wait(60)

    wait = ShareWorkers._wait

    def interrupted(workers: Any, threads: Any, timeout_ms: float) -> None:
        if timeout_ms > 1_000:
            raise KeyboardInterrupt
        wait(workers, threads, timeout_ms)

    monkeypatch.setattr(ShareWorkers, "_wait", interrupted)
    with sharing("drain", brokers=1) as (simulation, start):
        try:
            workers = ShareWorkers(start(), handle, workers=3)
            with pytest.raises(KeyboardInterrupt):
                workers.run(lambda: len(workers._running) == 3 and begun.wait(60) >= 0)
            began_ms = simulation.clock.now_ms()
            assert places(take(start(), 3)) == RELEASED
            assert simulation.clock.now_ms() - began_ms < LOCK_MS // 2
        finally:
            end.set()
