"""The queues between the threads."""

from __future__ import annotations

from tandem_kafka.events.application import Poll
from tandem_kafka.events.background import ErrorEvent, PartitionsLost
from tandem_kafka.events.queues import ApplicationEventQueue, BackgroundEventQueue


def test_events_wake_the_network_thread_and_keep_their_order() -> None:
    woken: list[int] = []
    queue = ApplicationEventQueue(lambda: woken.append(len(queue)))
    first, second = Poll(), Poll()
    queue.add(first)
    queue.add(second)
    assert woken == [1, 2], "the wakeup follows the append"
    assert queue.take() is first
    assert queue.take() is second
    assert queue.take() is None


def test_background_events_keep_their_order_and_are_counted() -> None:
    queue = BackgroundEventQueue()
    event = PartitionsLost(frozenset())
    queue.add(event)
    queue.add_error(ErrorEvent(ValueError("a")))
    assert (len(queue), queue.added) == (2, 2)
    assert queue.take() is event
    assert isinstance(queue.take(), ErrorEvent)
    assert queue.take() is None
    assert queue.added == 2


def test_the_same_error_is_queued_only_once() -> None:
    queue = BackgroundEventQueue()
    for error in (ValueError("a"), ValueError("a"), ValueError("b"), KeyError("a")):
        queue.add_error(ErrorEvent(error))
    assert len(queue) == 3
    while queue.take():
        pass
    queue.add_error(ErrorEvent(ValueError("a")))
    assert len(queue) == 1
