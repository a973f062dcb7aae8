"""One rebalance callback at a time."""

from __future__ import annotations

import pytest

from tandem_kafka.events.background import (
    BackgroundEvent,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from tandem_kafka.events.queues import BackgroundQueue
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tests.unit.request_managers.world import TP

HELD = frozenset({TP})


class Runner:
    def __init__(self) -> None:
        self.queue = BackgroundQueue()
        self.callbacks = CallbackRunner(self.queue)
        self.done = 0

    def run(self, event: PartitionsAssigned | PartitionsRevoked | PartitionsLost) -> None:
        self.callbacks.run(event, self._then)

    def _then(self) -> None:
        self.done += 1

    def asked(self) -> BackgroundEvent | None:
        return self.queue.take()


def test_a_callback_that_went_well_lets_things_go_on() -> None:
    runner = Runner()
    runner.run(PartitionsRevoked(HELD))
    assert runner.callbacks.busy
    assert runner.asked() == PartitionsRevoked(HELD)
    runner.callbacks.completed(None)
    assert runner.done == 1
    assert not runner.callbacks.busy
    runner.callbacks.completed(None)
    assert runner.done == 1


@pytest.mark.parametrize("event", [PartitionsRevoked(HELD), PartitionsAssigned(HELD, HELD)])
def test_76_78_a_callback_that_raised_runs_again_with_the_same_partitions(
    event: PartitionsRevoked | PartitionsAssigned,
) -> None:
    runner = Runner()
    runner.run(event)
    runner.asked()
    for _ in range(3):
        runner.callbacks.completed(ValueError("no"))
        assert runner.done == 0
        assert runner.asked() is None, "not before the application polls"
        runner.callbacks.retry()
        assert runner.asked() is event
        runner.callbacks.retry()
        assert runner.asked() is None, "once"
    runner.callbacks.completed(None)
    assert runner.done == 1


def test_85_what_is_lost_is_lost_whatever_the_listener_says() -> None:
    runner = Runner()
    runner.run(PartitionsLost(HELD))
    runner.callbacks.completed(ValueError("no"))
    assert runner.done == 1


def test_a_cancelled_callback_is_forgotten() -> None:
    runner = Runner()
    runner.run(PartitionsRevoked(HELD))
    runner.callbacks.cancel()
    runner.callbacks.completed(None)
    runner.callbacks.retry()
    assert runner.done == 0
    assert not runner.callbacks.busy
