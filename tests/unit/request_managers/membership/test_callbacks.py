"""Rebalance callbacks run one at a time, and only the newest counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tandem_kafka.events.background import (
    BackgroundEvent,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from tandem_kafka.events.queues import BackgroundEventQueue
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner, RebalanceEvent
from tandem_kafka.state.group import GroupIdentity
from tandem_kafka.state.polls import Polls
from tests.unit.request_managers.world import TP

HELD = frozenset({TP})


class Runner:
    def __init__(self) -> None:
        self.queue = BackgroundEventQueue()
        self.group = GroupIdentity("readers", None)
        self.polls = Polls()
        self.callbacks = CallbackRunner(self.queue, self.group, self.polls)
        self.done = 0

    def run(self, event: RebalanceEvent) -> None:
        self.callbacks.run(event, self._then)

    def _then(self) -> None:
        self.done += 1

    def take_event(self) -> BackgroundEvent | None:
        return self.queue.take()


def test_a_successful_callback_continues_the_rebalance() -> None:
    runner = Runner()
    runner.run(PartitionsRevoked(HELD))
    assert runner.callbacks.busy
    assert runner.take_event() == PartitionsRevoked(HELD, number=1)
    assert runner.group.callback == 1
    runner.callbacks.completed(1, None)
    assert runner.done == 1
    assert not runner.callbacks.busy
    assert runner.group.callback == 0
    runner.callbacks.completed(1, None)
    assert runner.done == 1


@pytest.mark.behaviour(76, 78)
@pytest.mark.parametrize("event", [PartitionsRevoked(HELD), PartitionsAssigned(HELD, HELD)])
def test_a_callback_that_raised_runs_again_with_the_same_partitions(
    event: PartitionsRevoked | PartitionsAssigned,
) -> None:
    runner = Runner()
    runner.run(event)
    runner.take_event()
    for _ in range(3):
        runner.callbacks.completed(1, ValueError("no"))
        assert runner.done == 0
        assert runner.take_event() is None, "not before the application polls"
        runner.callbacks.retry()
        assert runner.take_event() == replace(event, number=1)
        runner.callbacks.retry()
        assert runner.take_event() is None, "once"
    runner.callbacks.completed(1, None)
    assert runner.done == 1


@pytest.mark.behaviour(85)
def test_lost_partitions_are_lost_even_if_the_listener_raises() -> None:
    runner = Runner()
    runner.run(PartitionsLost(HELD))
    runner.callbacks.completed(1, ValueError("no"))
    assert runner.done == 1


def test_the_outcome_of_a_cancelled_callback_is_ignored() -> None:
    runner = Runner()
    runner.run(PartitionsRevoked(HELD))
    runner.callbacks.cancel()
    assert runner.group.callback == 0, "the application thread checks this before it starts"
    runner.callbacks.completed(1, None)
    runner.callbacks.retry()
    assert runner.done == 0
    assert not runner.callbacks.busy


def test_a_late_outcome_does_not_complete_a_newer_callback() -> None:
    runner = Runner()
    runner.run(PartitionsRevoked(HELD))
    runner.run(PartitionsLost(HELD))
    assert runner.group.callback == 2
    runner.callbacks.completed(1, None)
    assert runner.done == 0
    assert runner.callbacks.busy
    runner.callbacks.completed(2, None)
    assert runner.done == 1


def test_the_continuation_of_a_callback_may_start_the_next() -> None:
    runner = Runner()
    then = lambda: runner.run(PartitionsAssigned(HELD, HELD))  # noqa: E731
    runner.callbacks.run(PartitionsRevoked(HELD), then)
    runner.callbacks.completed(1, None)
    assert runner.group.callback == 2
    assert runner.callbacks.busy
