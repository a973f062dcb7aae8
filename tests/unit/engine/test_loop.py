"""The loop: no error ends it, and all waiting calls are notified."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tandem_kafka.engine.application_event_processor import ApplicationEventProcessor
from tandem_kafka.engine.loop import MAX_SLEEP_MS, NetworkLoop
from tandem_kafka.errors import (
    ConsumerClosedError,
    KafkaError,
    KafkaTimeoutError,
    NetworkThreadError,
    TopicAuthorizationFailedError,
    UnexpectedResponseError,
)
from tandem_kafka.events import application as events
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.queues import ApplicationEventQueue
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.network.transport import ConnectionOpened, FrameReceived, TransportEvent
from tandem_kafka.request_managers.base import IDLE, PollResult
from tandem_kafka.types import TopicPartition
from tests.unit.network.scripted import (
    ScriptedDriver,
    ScriptedTransport,
    api_versions,
    frame_of,
    metadata_response,
)
from tests.unit.request_managers.world import World

TP = TopicPartition("orders", 0)


class Driver(ScriptedDriver):
    notified = 0

    def notify(self, *, first: bool = False) -> None:  # noqa: ARG002 - the interface
        self.notified += 1


class Looped(World):
    """A world whose managers are polled by the real loop."""

    def __init__(self, **options: Any) -> None:
        super().__init__(leaders=(), **options)
        self.transport = ScriptedTransport()
        self.driver = Driver()
        self.queue = ApplicationEventQueue(self.transport.wakeup)
        self.client = NetworkClient(
            self.config, self.transport, self.driver, self.context.random, self.metadata
        )
        processor = ApplicationEventProcessor(self.context, self.managers)
        self.loop = NetworkLoop(
            self.context,
            self.managers,
            processor,
            self.client,
            self.transport,
            self.queue,
            self.driver,
        )

    def iterate(self, *, after_ms: int = 0) -> int:
        self.clock.advance_to(self.now_ms + after_ms)
        wait_ms = self.loop.prepare()
        self.loop.complete(self.transport.poll(wait_ms))
        return wait_ms

    def submit(self, event: Any) -> Any:
        self.queue.add(event)
        return event


class Broken:
    """A manager that raises."""

    def poll(self, _now_ms: int) -> PollResult:
        raise ZeroDivisionError

    def close(self, _now_ms: int) -> PollResult:
        raise ZeroDivisionError


def test_an_idle_loop_sleeps_as_long_as_allowed() -> None:
    world = Looped()
    assert world.iterate() == MAX_SLEEP_MS
    assert world.driver.notified == 0


def test_the_next_deadline_ends_the_sleep() -> None:
    world = Looped()
    world.submit(events.UpdatePositions(partition=TP, deadline_ms=world.now_ms + 700))
    world.subscription.assign_by_user([TP])
    world.iterate()
    assert world.iterate() <= 700


@pytest.mark.behaviour(42)
def test_a_manager_that_raises_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Looped()
    monkeypatch.setattr(world.managers.positions, "poll", Broken().poll)
    event = world.submit(events.Bootstrap(deadline_ms=world.now_ms + 10_000))
    wait_ms = world.iterate()
    assert 0 < wait_ms <= 200, "retried after a backoff"
    assert world.transport.addresses, "the metadata manager was polled too"
    assert world.loop.running
    assert not event.future.done
    world.iterate()
    (error,) = world.raised()
    assert isinstance(error, KafkaError)
    assert isinstance(error.__cause__, ZeroDivisionError)


@pytest.mark.behaviour(42)
def test_an_order_that_fails_to_end_does_not_end_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Looped()
    monkeypatch.setattr(world.managers.fetch, "_current_versions", lambda: Broken().poll(0))
    world.iterate()
    monkeypatch.undo()
    world.iterate()
    assert world.loop.running
    errors = world.raised()
    assert errors
    assert all(isinstance(error.__cause__, ZeroDivisionError) for error in errors)


@pytest.mark.behaviour(42)
def test_an_event_that_fails_unexpectedly_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Looped()
    monkeypatch.setattr(type(world.subscription), "unsubscribe", Broken().poll)
    event = world.submit(events.Unsubscribe(deadline_ms=world.now_ms + 1_000))
    other = world.submit(events.Pause(partitions=frozenset(), deadline_ms=world.now_ms + 1_000))
    world.iterate()
    assert isinstance(event.future.error, KafkaError)
    assert other.future.error is None
    assert world.loop.running


@pytest.mark.behaviour(42)
def test_a_response_that_a_manager_cannot_process_is_an_error_and_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Looped()
    response = world.managers.metadata._handle_response
    monkeypatch.setattr(world.managers.metadata, "_handle_response", lambda _: Broken().poll(0))
    waits = world.submit(events.UpdatePositions(partition=TP, deadline_ms=world.now_ms + 10_000))
    world.subscription.assign_by_user([TP])
    world.iterate()
    world.transport.events.append(ConnectionOpened(1))
    world.iterate()
    (versions,) = world.transport.take_sent()
    world.transport.events.append(FrameReceived(1, frame_of(versions, api_versions())))
    world.iterate()
    world.iterate()
    (metadata,) = world.transport.take_sent()
    world.transport.events.append(FrameReceived(1, frame_of(metadata, metadata_response())))
    world.iterate()
    error = waits.future.error
    assert isinstance(error, UnexpectedResponseError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    monkeypatch.setattr(world.managers.metadata, "_handle_response", response)
    bootstrap = world.submit(events.Bootstrap(deadline_ms=world.now_ms + 10_000))
    world.iterate(after_ms=world.config.retry_backoff_max_ms)
    world.iterate()
    (metadata,) = world.transport.take_sent()
    world.transport.events.append(FrameReceived(1, frame_of(metadata, metadata_response())))
    world.iterate()
    assert bootstrap.future.error is None


@pytest.mark.behaviour(42)
def test_a_manager_that_raises_in_its_error_handler_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Looped()
    monkeypatch.setattr(world.managers.metadata, "_handle_error", lambda _: Broken().poll(0))
    world.submit(events.Bootstrap(deadline_ms=world.now_ms + 100_000))
    world.iterate()
    world.iterate(after_ms=world.config.request_timeout_ms)
    (error,) = world.raised()
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert world.loop.running


@pytest.mark.behaviour(42)
def test_a_manager_that_raises_at_close_does_not_prevent_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Looped()
    monkeypatch.setattr(world.managers.positions, "close", Broken().close)
    world.submit(events.Close(deadline_ms=world.now_ms + 1_000))
    world.iterate()
    assert not world.loop.running


@pytest.mark.behaviour(37)
def test_an_event_without_a_response_fails_at_its_deadline() -> None:
    world = Looped()
    world.subscription.assign_by_user([TP])
    event = world.submit(events.UpdatePositions(partition=TP, deadline_ms=world.now_ms + 500))
    world.iterate(after_ms=499)
    assert not event.future.done
    before = world.driver.notified
    world.iterate(after_ms=1)
    assert isinstance(event.future.error, KafkaTimeoutError)
    assert "position()" in str(event.future.error)
    assert world.driver.notified == before + 1
    assert world.loop._reaper.watched() == ()


@pytest.mark.behaviour(38)
def test_a_zero_timeout_allows_one_attempt() -> None:
    world = Looped()
    event = world.submit(events.ListTopics(deadline_ms=world.now_ms))
    world.iterate()
    assert isinstance(event.future.error, KafkaTimeoutError)
    assert world.transport.addresses, "a connection was started"


def test_a_metadata_error_goes_to_the_call_that_waits_for_it() -> None:
    world = Looped()
    world.subscription.assign_by_user([TP])
    waits = world.submit(events.UpdatePositions(partition=TP, deadline_ms=world.now_ms + 10_000))
    other = world.submit(events.ListTopics(deadline_ms=world.now_ms + 10_000))
    world.iterate()
    error = TopicAuthorizationFailedError({"orders"})
    world.managers.metadata._error = error, {"orders"}
    world.iterate()
    assert waits.future.error is error
    assert not other.future.done
    assert world.background.take() is None


def test_a_metadata_error_without_a_waiting_call_is_raised_by_poll() -> None:
    world = Looped()
    error = TopicAuthorizationFailedError({"orders"})
    world.managers.metadata._error = error, {"orders"}
    world.iterate()
    assert world.background.take() == ErrorEvent(error, topics=frozenset({"orders"}))
    world.iterate()
    assert world.background.take() is None


def test_the_application_is_notified_only_of_changes() -> None:
    world = Looped()
    world.iterate()
    assert world.driver.notified == 0
    world.background.add_error(ErrorEvent(ValueError()))
    world.iterate()
    assert world.driver.notified == 1
    world.iterate()
    assert world.driver.notified == 1
    world.submit(events.Pause(partitions=frozenset(), deadline_ms=world.now_ms + 10))
    world.iterate()
    assert world.driver.notified == 2


def test_managers_are_polled_only_in_iterations_that_concern_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Looped()
    asked: list[int] = []
    positions = world.managers.positions

    def poll(now_ms: int) -> PollResult:
        asked.append(now_ms)
        return PollResult(wait_ms=4_000)

    def turns(*transport_events: TransportEvent, after_ms: int = 0) -> int:
        """Pass an event to the loop; return how often the managers were polled."""
        asked.clear()
        world.transport.events += transport_events
        world.iterate(after_ms=after_ms)
        world.iterate()
        return len(asked)

    monkeypatch.setattr(positions, "poll", poll)
    world.submit(events.Bootstrap(deadline_ms=world.now_ms + 60_000))
    assert turns() == 1, "an event was processed"
    assert turns(ConnectionOpened(1)) == 0, "a connection was opened"
    (versions,) = world.transport.take_sent()
    assert turns(FrameReceived(1, frame_of(versions, api_versions()))) == 0, (
        "its API versions arrived"
    )
    (metadata,) = world.transport.take_sent()
    monkeypatch.setattr(world.managers.metadata, "poll", lambda _: IDLE)
    assert turns(FrameReceived(1, frame_of(metadata, metadata_response()))) == 1, (
        "a request got its response"
    )
    assert turns(after_ms=3_000) == 0
    assert turns(after_ms=1_000) == 1, "a wait expired"
    world.context.buffer.starved = True
    monkeypatch.setattr(world.managers.fetch, "poll", lambda _: IDLE)
    assert turns() == 2, "the buffer may have space by now"


def test_an_event_that_came_late_ends_the_sleep() -> None:
    world = Looped()
    monkey = world.managers.positions.poll

    def late(now_ms: int) -> PollResult:
        world.submit(events.Pause(partitions=frozenset(), deadline_ms=now_ms + 10))
        world.managers.positions.poll = monkey  # type: ignore[method-assign]
        return IDLE

    world.managers.positions.poll = late  # type: ignore[method-assign]
    assert world.iterate() == 0


@pytest.mark.behaviour(116)
def test_pending_events_fail_at_the_end() -> None:
    world = Looped()
    world.subscription.assign_by_user([TP])
    watched = world.submit(events.UpdatePositions(partition=TP, deadline_ms=world.now_ms + 10**6))
    world.iterate()
    queued = world.submit(events.ListTopics(deadline_ms=world.now_ms + 10**6))
    world.loop.finish()
    for event in (watched, queued):
        assert isinstance(event.future.error, ConsumerClosedError)
    assert world.transport.closed


def test_pending_events_fail_with_the_error_that_ended_the_thread() -> None:
    world = Looped()
    world.subscription.assign_by_user([TP])
    watched = world.submit(events.UpdatePositions(partition=TP, deadline_ms=world.now_ms + 10**6))
    world.iterate()
    queued = world.submit(events.ListTopics(deadline_ms=world.now_ms + 10**6))
    cause = ZeroDivisionError("of the thread")
    world.loop.finish(cause)
    for event in (watched, queued):
        assert isinstance(event.future.error, NetworkThreadError)
        assert event.future.error.__cause__ is cause
    assert world.transport.closed
    assert world.loop.finished


def test_an_error_while_closing_does_not_replace_the_first_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Looped()
    monkeypatch.setattr(world.transport, "close", lambda: Broken().poll(0))
    cause = MemoryError()
    world.loop.finish(cause)
    assert world.loop.finished
    assert world.loop.failure is cause


@pytest.mark.behaviour(114)
def test_close_without_final_requests_ends_immediately() -> None:
    world = Looped()
    event = world.submit(events.Close(deadline_ms=world.now_ms + 30_000))
    assert world.iterate() == 0
    assert event.future.done
    assert not world.loop.running


def test_the_loop_of_a_dropped_consumer_ends() -> None:
    world = Looped()
    world.loop.stop()
    assert not world.loop.running
    assert world.transport.wakeups == 1


def test_an_interrupt_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_now_ms: int) -> PollResult:
        raise asyncio.CancelledError

    world = Looped()
    monkeypatch.setattr(world.managers.positions, "poll", interrupted)
    with pytest.raises(asyncio.CancelledError):
        world.iterate()
