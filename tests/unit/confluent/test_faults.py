"""What callbacks that raise, late polls, failed commits and second callers must not lose."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from kafka.errors import NotCoordinatorError

from tandem_kafka.confluent import Consumer, DeserializingConsumer
from tandem_kafka.errors import ConcurrentModificationError
from tandem_kafka_testing import Simulation
from tests.unit.confluent.simulated import offsets, polled, simulated
from tests.unit.confluent.test_interrupts import elsewhere
from tests.unit.confluent.test_reading import (
    A,
    B,
    Pressed,
    Raising,
    committed,
    fill,
    interrupted,
    member,
    reading,
    refuse,
    simulation,
)
from tests.unit.interrupts import UNAWAITED, Interrupter

__all__ = ["simulation"]

pytestmark = UNAWAITED

LATE = {"max__poll__interval__ms": 6_500, "session__timeout__ms": 6_000}


def waiting(simulation: Simulation, **properties: Any) -> Consumer:
    """Return a member for which 15 and 6 records wait that no call has returned."""
    stats = Raising()
    consumer = member(simulation, stats_cb=stats, statistics__interval__ms=300, **properties)
    interrupted(consumer, simulation, stats)
    return consumer


def test_a_long_wait_that_a_callback_ends_is_not_a_late_poll(simulation: Simulation) -> None:
    stats = Raising()
    consumer = member(simulation, stats_cb=stats, statistics__interval__ms=8_000, **LATE)
    stats.error = ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        consumer.poll(20)
    stats.error = None
    assert consumer.poll(0.1) is None


def test_a_late_call_returns_nothing_that_another_member_has_read(simulation: Simulation) -> None:
    consumer = waiting(simulation, enable__auto__commit=False, **LATE)
    other = simulation.consumer("t", group_id="g", auto_offset_reset="earliest")
    read = [record for _ in range(400) for part in other.poll(50).values() for record in part]
    assert len(read) == 21
    messages = consumer.consume(100, 1)
    assert [message.error() for message in messages] == [KafkaError._MAX_POLL_EXCEEDED]


def test_a_callback_that_polls_late_gets_no_message_twice(simulation: Simulation) -> None:
    got: list[Any] = []

    def polls(_: str) -> None:
        if not got and consumer._taken.waiting():
            got.append(consumer.poll(0))
            simulation.sleep(8_000)
            got.append(consumer.poll(0))

    consumer = member(simulation, stats_cb=polls, statistics__interval__ms=300, **LATE)
    simulation.after(50, lambda: fill(simulation, 5))
    consumer.consume(100, 3)
    assert got[0].offset() == 0
    assert got[1].error() == KafkaError._MAX_POLL_EXCEEDED


def test_a_refused_seek_changes_nothing(simulation: Simulation) -> None:
    consumer = waiting(simulation)
    with pytest.raises(KafkaException):
        consumer.seek(TopicPartition("t", 0, -5))
    messages = offsets(consumer.consume(100, 0.5))
    assert [offset for partition, offset in messages if partition == 0] == list(range(15))


def test_what_comes_due_during_a_call_is_done_in_it(simulation: Simulation) -> None:
    stats = Raising()
    stats.error = ZeroDivisionError
    consumer = reading(simulation, A, stats_cb=stats, statistics__interval__ms=100)
    with pytest.raises(ZeroDivisionError):
        consumer.consume(1, 0.2)


def test_error_cb_is_called_as_soon_as_every_broker_has_failed(simulation: Simulation) -> None:
    def failed(error: KafkaError) -> None:
        raise KafkaException(error)

    simulation.cluster.stop(1)
    consumer = reading(simulation, A, error_cb=failed)
    with pytest.raises(KafkaException) as raised:
        consumer.consume(1, 0.5)
    assert raised.value.args[0] == KafkaError._ALL_BROKERS_DOWN


@pytest.mark.parametrize("call", ["commit", "store_offsets"])
def test_a_message_without_an_offset_is_as_a_partition_without_one(
    simulation: Simulation, call: str
) -> None:
    consumer = reading(simulation, A, enable__auto__offset__store=False)
    getattr(consumer, call)(Message(topic="t", partition=0))
    with pytest.raises(KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert raised.value.args[0] == KafkaError._NO_OFFSET
    failed = Message(topic="t", partition=0, offset=1, error=KafkaError(3))
    with pytest.raises(KafkaException, match="Unknown topic") as raised:
        getattr(consumer, call)(failed)
    assert raised.value.args[0] == KafkaError._INVALID_ARG


def test_a_change_that_cannot_succeed_is_repeated_once(simulation: Simulation) -> None:
    fill(simulation, 2)
    consumer = reading(simulation, A)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            consumer._changes.make(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            consumer.poll(0)
    assert offsets(polled(consumer, 3, 0.5)) == [(0, 0), (0, 1)]


@pytest.mark.parametrize("call", ["assign", "incremental_assign"])
def test_a_refused_assignment_changes_nothing(simulation: Simulation, call: str) -> None:
    fill(simulation, 2)
    consumer = reading(simulation, A)
    assert len(polled(consumer, 1)) == 1
    with pytest.raises(KafkaException):
        getattr(consumer, call)([TopicPartition("t", 1, -5)])
    assert [each.partition for each in consumer.assignment()] == [0]
    assert offsets(polled(consumer, 2, 0.5)) == [(0, 1)]


@pytest.mark.parametrize("where", ["callback", "commit"])
def test_ctrl_c_in_a_revocation_hands_nothing_out_afterwards(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    gone: list[int] = []

    def revoked(_: Any, partitions: list[TopicPartition]) -> None:
        gone.extend(each.partition for each in partitions)
        if where == "callback" and len(gone) == 1:
            raise Pressed

    def pressed(*_: Any) -> None:
        raise Pressed

    consumer = simulated(simulation, group__protocol="consumer")
    consumer.subscribe(["t"], on_revoke=revoked)
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    for key in (A, B):
        fill(simulation, 1, key)
    assert len(polled(consumer, 2)) == 2
    for key in (A, B):
        fill(simulation, 3, key)
    simulation.consumer("t", group_id="g", group_protocol="consumer").poll(10)
    if where == "commit":
        monkeypatch.setattr(consumer._kafka, "_commit_existing", pressed)
    with pytest.raises(Pressed):
        consumer.consume(100, 12)
    monkeypatch.undo()
    assert [each.partition for each in consumer.assignment()] == [1 - gone[0]]
    messages = offsets(consumer.consume(100, 0.5))
    assert messages == [(1 - gone[0], offset) for offset in (1, 2, 3)]


def test_a_close_repeats_a_commit_on_its_way_that_fails(simulation: Simulation) -> None:
    consumer = member(simulation)
    fill(simulation, 3)
    assert len(polled(consumer, 3)) == 3
    refuse(simulation, NotCoordinatorError.errno)
    consumer.commit()
    consumer.close()
    assert committed(simulation) == 3


def test_a_second_caller_takes_nothing_from_the_first(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = member(simulation, enable__auto__commit=False)
    fill(simulation, 5)
    polls, inside = consumer._kafka.poll, threading.Lock()
    raised: list[Any] = []

    def second() -> None:
        consumer._reader.serve_ms = 0
        try:
            consumer.poll(0)
        except RuntimeError as error:
            raised.append(type(error))

    def poll(*arguments: Any) -> Any:
        if not inside.acquire(blocking=False):
            raise ConcurrentModificationError("t")
        try:
            caller = threading.Thread(target=second)
            caller.start()
            caller.join()
            return polls(*arguments)
        finally:
            inside.release()

    monkeypatch.setattr(consumer._kafka, "poll", poll)
    found = offsets(consumer.consume(5, 1))
    assert set(raised) == {ConcurrentModificationError}
    assert found == [(0, n) for n in range(5)]


def test_a_partition_without_a_position_is_reported_once(simulation: Simulation) -> None:
    fill(simulation, 2)
    consumer = simulated(simulation, auto__offset__reset="error", enable__auto__commit=False)
    consumer.commit(offsets=[TopicPartition("t", 1, 0)], asynchronous=False)
    fill(simulation, 1, B)
    consumer.subscribe(["t"])
    found = polled(consumer, 10, 2)
    errors = [message for message in found if message.error() is not None]
    assert [(message.partition(), message.error()) for message in errors] == [
        (0, KafkaError._AUTO_OFFSET_RESET)
    ]
    assert offsets([message for message in found if message.error() is None]) == [(1, 0)]
    consumer.seek(TopicPartition("t", 0, 1))
    assert offsets(polled(consumer, 1)) == [(0, 1)]


def test_each_end_comes_although_ctrl_c_ends_the_call(simulation: Simulation) -> None:
    consumer = reading(simulation, A, enable__partition__eof=True, enable__auto__commit=False)
    assert len(polled(consumer, 1)) == 1
    for at in range(10_000):
        fill(simulation, 1)
        simulation.sleep(30)
        interrupter = Interrupter(at, skip=elsewhere)
        with suppress(KeyboardInterrupt):
            interrupter.call(lambda: consumer._reader.collect(5, 50))
        found = [message for message in polled(consumer, 3, 0.1) if message.error() is not None]
        assert found, f"no end at {at}"
        if interrupter.frame is None:
            return


def test_ctrl_c_in_a_deserializer_loses_no_message(simulation: Simulation) -> None:
    fill(simulation, 3)
    calls: list[Any] = []
    raised: dict[int, type[BaseException]] = {2: Pressed, 4: ZeroDivisionError}

    def value(given: Any, _: Any) -> Any:
        calls.append(given)
        if len(calls) in raised:
            raise raised[len(calls)]
        return given

    consumer = DeserializingConsumer.__new__(DeserializingConsumer)
    consumer.__dict__.update(reading(simulation, A).__dict__)
    consumer._key_deserializer, consumer._value_deserializer = None, value
    found: list[Any] = []
    for _ in range(5):
        try:
            message = consumer.poll(0.5)
        except Pressed:
            assert consumer.position([TopicPartition("t", 0)])[0].offset == 1
        except KafkaException as error:
            found.append(error.kafka_message.offset())  # type: ignore[attr-defined]
        else:
            found.append(message and message.offset())
    assert found == [0, 1, 2, None]


def test_nothing_is_committed_of_partitions_that_are_lost(simulation: Simulation) -> None:
    results: list[Any] = []
    consumer = member(
        simulation,
        on_commit=lambda error, _: results.append(error),
        auto__commit__interval__ms=60_000,
        **LATE,
    )
    fill(simulation, 1)
    assert len(polled(consumer, 1)) == 1
    simulation.sleep(8_000)
    assert [message.error() for message in polled(consumer, 1)] == [KafkaError._MAX_POLL_EXCEEDED]
    assert offsets(polled(consumer, 1)) == [(0, 0)]
    assert results == []
    assert committed(simulation) is None


def test_a_seek_beside_a_call_loses_no_message(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = reading(simulation, A)
    consumer.poll(0.1)
    fill(simulation, 5)
    polls, seeks = consumer._kafka.poll, [TopicPartition("t", 0, 2)]

    def poll(*arguments: Any) -> Any:
        if seeks and arguments[0]:  # it waits, and returns what is behind the seek
            consumer.seek(seeks.pop())
        return polls(*arguments)

    monkeypatch.setattr(consumer._kafka, "poll", poll)
    assert offsets(consumer.consume(100, 0.5)) == [(0, 2), (0, 3), (0, 4)]
