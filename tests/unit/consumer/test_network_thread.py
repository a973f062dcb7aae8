"""Every call detects a network thread that has ended or never started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.engine.loop import NetworkLoop
from tandem_kafka.errors import ConsumerClosedError, NetworkThreadError

pytestmark = pytest.mark.real_time

TP = TopicPartition("orders", 0)
#: No server listens on the discard port; these tests need no broker.
OPTIONS: dict[str, Any] = {
    "bootstrap_servers": "127.0.0.1:9",
    "bootstrap_timeout_ms": 0,
    "group_id": "readers",
}


class PanicError(BaseException):
    """Like a panic of the extension: not an `Exception`."""


@pytest.fixture(params=[ZeroDivisionError, PanicError, SystemExit])
def dead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A consumer with an assignment whose network thread has ended with an error."""
    consumer = KafkaConsumer(**OPTIONS)
    consumer.assign([TP])
    consumer.seek(TP, 7)

    def die(_: NetworkLoop) -> int:
        raise request.param

    monkeypatch.setattr(NetworkLoop, "prepare", die)
    consumer._core.engine.transport.wakeup()
    while not consumer._core.engine.loop.finished:
        pass
    yield consumer
    if not consumer._core.closed:
        with pytest.raises(NetworkThreadError):
            consumer.close()


CALLS: dict[str, Callable[[KafkaConsumer], object]] = {
    "poll": lambda c: c.poll(10_000),
    "poll without time": lambda c: c.poll(0),
    "iteration": next,
    "assignment": lambda c: c.assignment(),
    "position": lambda c: c.position(TP),
    "seek": lambda c: c.seek(TP, 3),
    "pause": lambda c: c.pause(TP),
    "commit": lambda c: c.commit({TP: OffsetAndMetadata(1, "", -1)}),
    "commit_async": lambda c: c.commit_async({TP: OffsetAndMetadata(1, "", -1)}),
    "committed": lambda c: c.committed(TP),
    "end_offsets": lambda c: c.end_offsets([TP]),
    "topics": lambda c: c.topics(),
    "subscribe": lambda c: c.subscribe(["orders"]),
    "unsubscribe": lambda c: c.unsubscribe(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_raises_the_error_that_ended_the_network_thread(
    dead: KafkaConsumer, call: Callable[[KafkaConsumer], object]
) -> None:
    for _ in range(2):
        with pytest.raises(NetworkThreadError, match="create a new consumer") as caught:
            call(dead)
        assert isinstance(caught.value.__cause__, ZeroDivisionError | PanicError | SystemExit)


def test_close_raises_it_once_and_closes(dead: KafkaConsumer) -> None:
    with pytest.raises(NetworkThreadError):
        dead.close()
    dead.close()
    with pytest.raises(ConsumerClosedError):
        dead.poll(0)


def test_a_wait_ends_with_the_network_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = KafkaConsumer(**OPTIONS)
    consumer.assign([TP])
    prepare = NetworkLoop.prepare
    turns = 0

    def die_later(loop: NetworkLoop) -> int:
        nonlocal turns
        turns += 1
        if turns > 3:
            raise PanicError
        return min(20, prepare(loop))

    monkeypatch.setattr(NetworkLoop, "prepare", die_later)
    with pytest.raises(NetworkThreadError) as caught:
        consumer.poll(120_000)
    assert isinstance(caught.value.__cause__, PanicError)
    with pytest.raises(NetworkThreadError):
        consumer.close()


def test_a_thread_that_cannot_be_started_fails_the_constructor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = []

    class Interceptor:
        def on_consume(self, records: Any) -> Any:
            return records

        def close(self) -> None:
            closed.append(self)

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(NetworkThreadError, match="can't start new thread"):
        KafkaConsumer(**OPTIONS, interceptor_classes=[Interceptor()])
    assert len(closed) == 1


def test_a_lookup_that_gets_no_thread_is_only_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def no_second_thread(thread: threading.Thread) -> None:
        if "offload" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", no_second_thread)
    with KafkaConsumer(**{**OPTIONS, "bootstrap_servers": "localhost:9"}) as consumer:
        consumer.assign([TP])
        assert consumer.poll(300) == {}
        assert consumer._core.engine.loop.failure is None
