"""The one question of `poll()`: what comes while it looks is seen by this look or the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.config import Config
from tandem_kafka.consumer import core as core_module
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.reading import poller as poller_module
from tandem_kafka.consumer.reading.poller import Poller
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import KafkaError, WakeupError
from tandem_kafka.events import queues
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.queues import ApplicationEventQueue, BackgroundEventQueue
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.runtime.callers import Threads, run
from tandem_kafka.state import partition
from tandem_kafka.state import polls as polls_module
from tandem_kafka.state import subscription as subscription_module
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka.state.partition import Position
from tandem_kafka.state.polls import Polls
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import TopicPartition
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_seed
from tests.threads.test_waiting import Ticking, driven

TP = TopicPartition("orders", 0)
POLLS = 4


@pytest.fixture(autouse=True)
def _without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller_module, "collect", lambda *_: ConsumerRecords())


def core_of(lockstep: Lockstep, **parts: Any) -> Core:
    """A core that waits in lockstep, with these parts of an engine."""
    engine: Any = SimpleNamespace(
        loop=SimpleNamespace(failure=None, finished=False),
        group=SimpleNamespace(fatal=None, client=None),
        **parts,
    )
    made: Any = SimpleNamespace(clock=Ticking(), driver=driven(lockstep))
    config = Config.from_options({"group_id": "readers"})
    return Core(config, made, Threads(made.clock, made.driver), engine)


class Reading:
    """A real `Poller` between real queues; commits, background events and reporters are lists."""

    def __init__(self, lockstep: Lockstep) -> None:
        self.polls = Polls()
        self.polls.event_needed = False
        self.background = BackgroundEventQueue(self.polls)
        self.finished_commits: list[int] = []
        self.callbacks_run_elsewhere = False
        self.seen: list[object] = []
        self.core = core_of(
            lockstep,
            queue=ApplicationEventQueue(lambda: None),
            subscription=SubscriptionState(),
            buffer=FetchBuffer(),
            metrics=ConsumerMetrics(),
            polls=self.polls,
        )
        self.poller = Poller(self.core, *self._parts())

    def _parts(self) -> tuple[Any, ...]:
        seen, finished, background = self.seen, self.finished_commits, self.background
        reading = self

        class Background:
            def __len__(self) -> int:
                return len(background)

            async def process(self) -> None:
                while (event := background.take()) is not None:
                    assert isinstance(event, ErrorEvent)
                    seen.append(str(event.error))

        class Commits:
            auto_commit_ms = float("inf")

            @property
            def waiting(self) -> bool:
                return bool(finished)

            def run_callbacks(self) -> None:
                while finished and not reading.callbacks_run_elsewhere:
                    seen.append(finished.pop(0))

        collector = SimpleNamespace(
            deserializing=False,
            max_bytes=0,
            raw=False,
            busy=False,
            publication=SimpleNamespace(done=True),
            moved=(),
            to_drop=frozenset,
        )
        return Commits(), collector, Background(), SimpleNamespace(report=lambda: None)

    def poll(self) -> None:
        held = self.core.enter()
        assert held is not None
        try:
            run(self.poller.poll(0, 500, held))
        except WakeupError:
            self.seen.append("woken")
        finally:
            held.release()


@each_seed
def test_no_reason_is_lost_wherever_the_threads_switch(seed: int) -> None:
    lockstep = Lockstep(seed, polls_module, poller_module, core_module, queues)
    reading = Reading(lockstep)

    def network() -> None:
        for number in range(3):
            reading.background.add(ErrorEvent(KafkaError(f"error {number}")))

    def committing() -> None:
        for number in range(3):
            reading.finished_commits.append(number)
            reading.polls.request_attention()

    def other() -> None:
        lockstep.pause()
        reading.core.wakeup()

    def application() -> None:
        for _ in range(POLLS):
            reading.poll()

    lockstep.run(network=network, committing=committing, other=other, application=application)
    reading.poll()  # nobody has called it again
    reading.poll()  # the one before may have been woken instead
    wanted = [0, 1, 2, *(f"KafkaError: error {number}" for number in range(3)), "woken"]
    assert sorted(reading.seen, key=str) == sorted(wanted, key=str)


@each_seed
def test_one_event_is_not_lost(seed: int) -> None:
    """Without others, whose reasons would call the reader again."""
    lockstep = Lockstep(seed, polls_module, queues, switch=0.6)
    reading = Reading(lockstep)
    lockstep.run(
        network=lambda: reading.background.add(ErrorEvent(KafkaError("only"))),
        application=reading.poll,
    )
    reading.poll()
    assert reading.seen == ["KafkaError: only"]


@each_seed
def test_a_position_that_is_lost_while_poll_looks_is_told_once(seed: int) -> None:
    lockstep = Lockstep(seed, poller_module, partition, subscription_module)
    reading = Reading(lockstep)
    subscription, queue = reading.core.engine.subscription, reading.core.engine.queue
    subscription.assign_by_user([TP])
    subscription.get(TP).set_position(Position(0))
    lockstep.run(
        network=lambda: subscription.get(TP).await_reset(-1),
        application=lambda: [reading.poll() for _ in range(POLLS)],
    )
    reading.poll()
    reading.poll()
    assert len(queue) == 1


def test_what_another_thread_leaves_behind_is_done_by_a_later_poll() -> None:
    """It runs the callbacks and is interrupted; nobody calls the reader then."""
    reading = Reading(Lockstep(0))
    reading.finished_commits.append(1)
    reading.polls.request_attention()
    reading.callbacks_run_elsewhere = True
    reading.poll()
    reading.callbacks_run_elsewhere = False
    reading.poll()
    assert reading.seen == [1]


def test_without_a_reason_nothing_is_asked() -> None:
    reading = Reading(Lockstep(0))
    reading.poll()
    reading.background.add(ErrorEvent(KafkaError("unseen")))
    reading.polls.attention = reading.poller._answered  # as if nobody had called
    reading.poll()
    assert reading.seen == []
    reading.polls.request_attention()
    reading.poll()
    assert reading.seen == ["KafkaError: unseen"]
