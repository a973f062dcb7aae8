"""Programs with several threads, and work done without a call of the consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.structs import OffsetAndMetadata

from tests.parity.world import PATIENCE_S, World, outcome
from tests.waiting import until, wait_until

__all__ = ["PROGRAMS"]


def beside_a_poll(consumer: Any, work: Callable[[], Any], poll_ms: int = 3_000) -> Any:
    """Run `work` in another thread while this one polls; return its result."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: (time.sleep(0.3), found.append(outcome(work))))
    thread.start()
    for _ in until(lambda: found):
        outcome(lambda: consumer.poll(poll_ms))
    thread.join(PATIENCE_S)
    return found[0]


def a_health_check(world: World) -> Any:
    """It reads the state while the loop waits for records."""
    world.produce(b"a", b"b")
    tp = TopicPartition(world.topic, 0)
    consumer = world.consumer(group_id=world.group)
    consumer.assign([tp])
    world.read(consumer, 2)

    def look() -> Any:
        consumer.metrics()
        return (
            consumer.assignment(),
            consumer.subscription(),
            consumer.paused(),
            consumer.position(tp),
            consumer.highwater(tp),
            consumer.group_metadata().group_id == world.group,
        )

    return beside_a_poll(consumer, look)


def a_pool_that_commits(world: World) -> Any:
    """Workers commit each record while the loop continues."""
    world.produce(*(b"%d" % number for number in range(20)))
    tp = TopicPartition(world.topic, 0)
    consumer = world.consumer(world.topic, group_id=world.group, enable_auto_commit=False)
    errors: list[Any] = []
    lock = threading.Lock()
    done = 0

    def work(_: Any) -> None:
        nonlocal done
        with lock:
            done += 1
            errors.append(outcome(lambda: consumer.commit({tp: OffsetAndMetadata(done, "", -1)})))

    with ThreadPoolExecutor(3) as pool:
        records = 0
        while records < 20:
            for some in consumer.poll(200).values():
                records += len(some)
                for record in some:
                    pool.submit(work, record)
        world.poll_until(consumer, lambda: len(errors) == 20)
    return errors, consumer.committed(tp)


def steered_from_another_thread(world: World) -> Any:
    """Another thread pauses, resumes and seeks while the loop waits."""
    world.produce(b"a", b"b", b"c")
    tp = TopicPartition(world.topic, 0)
    consumer = world.consumer()
    consumer.assign([tp])
    world.read(consumer, 3)
    return [
        beside_a_poll(consumer, lambda: consumer.pause(tp), 500),
        beside_a_poll(consumer, consumer.paused, 500) == {tp},
        beside_a_poll(consumer, lambda: consumer.seek(tp, 1), 500),
        beside_a_poll(consumer, lambda: consumer.resume(tp), 50),
    ]


def closed_by_another_thread(world: World) -> Any:
    """The loop of polls ends."""
    consumer = world.consumer(world.topic, group_id=world.group)
    world.poll_until(consumer, consumer.assignment)
    thread = threading.Thread(target=lambda: (time.sleep(0.5), consumer.close()))
    thread.start()
    while not consumer._closed:
        outcome(lambda: consumer.poll(60_000))
    thread.join(PATIENCE_S)
    return thread.is_alive(), consumer._closed, outcome(consumer.poll)


def a_future_without_another_call(world: World) -> Any:
    """commit_async() completes by itself, and calls the callbacks of its future."""
    world.produce(b"a")
    tp = TopicPartition(world.topic, 0)
    consumer = world.consumer(group_id=world.group, enable_auto_commit=False)
    consumer.assign([tp])
    world.read(consumer, 1)
    consumer.commit()
    called: list[Any] = []
    future = consumer.commit_async({tp: OffsetAndMetadata(1, "", -1)})
    future.add_callback(lambda _: called.append("committed"))
    wait_until(lambda: future.is_done and called)
    return future.succeeded(), future.failed(), future.exception, called


def callbacks_of_commits(world: World) -> Any:
    """A later call runs them with offsets and None; automatic commits use the default callback."""
    world.produce(b"a")
    tp = TopicPartition(world.topic, 0)
    automatic: list[Any] = []
    given: list[Any] = []
    consumer = world.consumer(
        group_id=world.group,
        auto_commit_interval_ms=200,
        # On a slow machine, kafka-python also commits nothing at all.
        default_offset_commit_callback=lambda offsets, response: automatic.extend(
            (each.offset, response) for each in offsets.values()
        ),
    )
    consumer.assign([tp])
    world.read(consumer, 1)
    world.poll_until(consumer, lambda: (1, None) in automatic)
    offsets = {tp: OffsetAndMetadata(0, "note", -1)}
    consumer.commit_async(offsets, callback=lambda _, response: given.append(response))
    world.poll_until(consumer, lambda: given)
    return given, automatic[-1]


def a_listener(world: World) -> Any:
    """A listener of kafka-python's class."""

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def on_partitions_revoked(self, revoked: Any) -> None:
            self.calls.append(("revoked", sorted(tp.partition for tp in revoked)))

        def on_partitions_assigned(self, assigned: Any) -> None:
            self.calls.append(("assigned", sorted(tp.partition for tp in assigned)))

    listener = Listener()
    consumer = world.consumer(group_id=world.group)
    consumer.subscribe([world.topic], listener=listener)
    world.poll_until(consumer, consumer.assignment)
    world.poll_until(consumer, lambda: ("assigned", [0, 1]) in listener.calls)
    return [call for call in listener.calls if call[1]]


def a_listener_of_coroutines(world: World) -> Any:
    """kafka-python's AsyncConsumerRebalanceListener."""

    class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
        def __init__(self) -> None:
            self.assigned: list[int] = []

        async def on_partitions_revoked(self, revoked: Any) -> None: ...

        async def on_partitions_assigned(self, assigned: Any) -> None:
            self.assigned += sorted(tp.partition for tp in assigned)

    listener = Listener()
    consumer = world.consumer(group_id=world.group)
    consumer.subscribe([world.topic], listener=listener)
    world.poll_until(consumer, lambda: listener.assigned)
    return listener.assigned


PROGRAMS = (
    a_health_check,
    a_pool_that_commits,
    steered_from_another_thread,
    closed_by_another_thread,
    a_future_without_another_call,
    callbacks_of_commits,
    a_listener,
    a_listener_of_coroutines,
)
