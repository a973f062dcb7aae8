"""wakeup() and Ctrl-C end blocking calls, lose nothing, and leave a working consumer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import (
    ConsumerClosedError,
    IllegalStateError,
    NotAssignedError,
    WakeupError,
)
from tandem_kafka.events.application import ApplyAssignment, CommitSync
from tandem_kafka_testing.kafka import RealKafka
from tests.implementations import in_python
from tests.integration.polling import (
    ENDLESS_MS,
    Consume,
    Listener,
    assigned,
    interrupted_when_blocked,
    partitions_of,
    poll_until,
    read_all,
    when_blocked,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.both_clusters, pytest.mark.usefixtures("ctrl_c")]


@pytest.fixture
def idle(topic: str, consume: Consume) -> KafkaConsumer:
    """Has a position in an empty partition."""
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    assert consumer.position(TopicPartition(topic, 0)) == 0
    return consumer


@pytest.fixture
def member(topic: str, consume: Consume) -> KafkaConsumer:
    """Has joined its group and owns an empty partition."""
    consumer = consume(topic, group_id=f"group-of-{topic}")
    assigned(consumer, partitions_of(topic, 1))
    return consumer


def works_on(kafka: RealKafka, consumer: KafkaConsumer, topic: str) -> None:
    kafka.admin.produce(topic, [b"later"])
    assert [record.value for record in read_all(consumer, 1)] == [b"later"]


@pytest.mark.behaviour(29)
def test_wakeup_before_poll_raises_once(kafka: RealKafka, topic: str, idle: KafkaConsumer) -> None:
    idle.wakeup()
    with pytest.raises(WakeupError):
        idle.poll(0)
    assert idle.poll(0) == {}
    works_on(kafka, idle, topic)


@pytest.mark.behaviour(30)
def test_wakeup_from_another_thread_ends_poll(
    kafka: RealKafka, topic: str, idle: KafkaConsumer
) -> None:
    with when_blocked(idle, idle.wakeup), pytest.raises(WakeupError):
        idle.poll(ENDLESS_MS)
    works_on(kafka, idle, topic)


@pytest.mark.behaviour(30)
def test_wakeup_ends_the_poll_of_a_member(
    kafka: RealKafka, topic: str, member: KafkaConsumer
) -> None:
    with when_blocked(member, member.wakeup), pytest.raises(WakeupError):
        member.poll(ENDLESS_MS)
    assert member.assignment() == set(partitions_of(topic, 1))
    works_on(kafka, member, topic)


@pytest.fixture
def on_usr1(idle: KafkaConsumer) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: idle.wakeup())
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.behaviour(30)
@pytest.mark.usefixtures("on_usr1")
def test_wakeup_from_a_signal_handler(kafka: RealKafka, topic: str, idle: KafkaConsumer) -> None:
    send = lambda: os.kill(os.getpid(), signal.SIGUSR1)  # noqa: E731
    for _ in range(5):
        with when_blocked(idle, send), pytest.raises(WakeupError):
            idle.poll(ENDLESS_MS)
    works_on(kafka, idle, topic)


Handle = Callable[[Callable[[], object]], AbstractContextManager[object]]


@pytest.fixture(params=["the usual way", "in Python"])
def handle(request: pytest.FixtureRequest, idle: KafkaConsumer) -> Handle:
    """Has a signal handler run an action while the consumer waits."""
    for _ in range(3):
        idle.poll(50)  # from here on, nothing but records needs attention
    if request.param == "in Python":
        in_python(idle)

    @contextmanager
    def handling(action: Callable[[], object]) -> Iterator[None]:
        before = signal.signal(signal.SIGUSR1, lambda *_: action())
        try:
            with when_blocked(idle, lambda: os.kill(os.getpid(), signal.SIGUSR1)):
                yield
        finally:
            signal.signal(signal.SIGUSR1, before)

    return handling


def test_a_signal_handler_closes_a_waiting_consumer(idle: KafkaConsumer, handle: Handle) -> None:
    with handle(idle.close):
        assert idle.poll(ENDLESS_MS) == {}
    with pytest.raises(ConsumerClosedError):
        idle.poll(0)


def test_a_signal_handler_cannot_read_inside_of_a_call(idle: KafkaConsumer, handle: Handle) -> None:
    for call in (lambda: idle.poll(ENDLESS_MS), lambda: next(idle)):
        for inner in (lambda: idle.poll(0), lambda: next(idle)):
            with handle(inner), pytest.raises(IllegalStateError, match="inside of another"):
                call()
    assert idle.poll(0) == {}


def test_an_error_of_a_signal_handler_is_that_of_the_call(
    idle: KafkaConsumer, handle: Handle, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(name: str) -> None:
        raise NotAssignedError(f"from the handler of {name}")

    for name, call in (("poll", lambda: idle.poll(ENDLESS_MS)), ("next", lambda: next(idle))):
        caplog.clear()
        with handle(partial(fails, name)), pytest.raises(NotAssignedError, match=name):
            call()
        assert "poll() raised an error" in caplog.text


@pytest.mark.behaviour(31)
def test_wakeup_loses_no_records(kafka: RealKafka, topic: str, consume: Consume) -> None:
    """Wakeups occur at any moment of reading; each record is read once and in order."""
    total = 3_000
    kafka.admin.produce(topic, [b"x" * 100] * total)
    consumer = consume(max_poll_records=3)
    consumer.assign(partitions_of(topic, 1))
    state = consumer._core.engine.subscription.assigned[TopicPartition(topic, 0)]
    done = threading.Event()

    def bother() -> None:
        while not done.wait(0.0005):
            consumer.wakeup()

    thread = threading.Thread(target=bother)
    thread.start()
    offsets: list[int] = []
    wakeups = 0
    try:
        while len(offsets) < total:
            before = state.position
            try:
                batch = consumer.poll(1_000)
            except WakeupError:
                wakeups += 1
                assert before is None or state.position is before
            else:
                offsets += [record.offset for records in batch.values() for record in records]
    finally:
        done.set()
        thread.join()
    assert offsets == list(range(total))
    assert wakeups > 0


@pytest.mark.behaviour(31)
def test_records_and_wakeup_at_the_same_time(
    kafka: RealKafka, topic: str, idle: KafkaConsumer
) -> None:
    """A wake-up with records at hand raises first; the records stay for the next call."""
    kafka.admin.produce(topic, [b"1", b"2"])
    buffer = idle._core.engine.buffer
    wait_until(lambda: buffer.added > 0, "fetching between polls")
    idle.wakeup()
    with pytest.raises(WakeupError):
        idle.poll(1_000)
    assert idle.position(TopicPartition(topic, 0)) == 0
    assert len(read_all(idle, 2)) == 2


@pytest.mark.behaviour(32)
def test_wakeup_before_the_other_calls_raises_once(topic: str, member: KafkaConsumer) -> None:
    tp = TopicPartition(topic, 0)
    for call in (
        member.commit,
        lambda: member.committed(tp),
        lambda: member.position(tp),
        lambda: member.partitions_for_topic(f"not-{topic}"),
        member.topics,
    ):
        member.wakeup()
        if call == member.commit:
            member.seek(tp, 0)  # something to commit
        with pytest.raises(WakeupError):
            call()
        call()


@pytest.mark.behaviour(32)
def test_wakeup_does_not_disturb_calls_that_it_must_not_interrupt(
    topic: str, member: KafkaConsumer
) -> None:
    tp = TopicPartition(topic, 0)
    member.wakeup()
    member.seek(tp, 0)
    member.pause(tp)
    member.resume(tp)
    assert member.end_offsets([tp]) == {tp: 0}
    assert member.beginning_offsets([tp]) == {tp: 0}
    assert member.offsets_for_times({tp: 0}) == {tp: None}
    with pytest.raises(WakeupError):
        member.poll(0)


@pytest.mark.behaviour(32)
def test_wakeup_does_not_end_close(kafka: RealKafka, topic: str, consume: Consume) -> None:
    group = f"group-of-{topic}"
    kafka.admin.produce(topic, [b"1", b"2"])
    consumer = consume(topic, group_id=group, enable_auto_commit=True)
    read_all(consumer, 2)
    consumer.wakeup()
    consumer.close()
    described = kafka.admin.client.describe_consumer_groups([group])[group].result(20)
    assert described.members == []
    assert consume(group_id=group).committed(TopicPartition(topic, 0)) == 2


@pytest.mark.behaviour(33)
def test_ctrl_c_in_poll(kafka: RealKafka, topic: str, idle: KafkaConsumer) -> None:
    for _ in range(3):
        with interrupted_when_blocked(idle), pytest.raises(KeyboardInterrupt):
            idle.poll(ENDLESS_MS)
    works_on(kafka, idle, topic)


@pytest.mark.behaviour(33)
def test_ctrl_c_before_poll(kafka: RealKafka, topic: str, idle: KafkaConsumer) -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    works_on(kafka, idle, topic)


@pytest.mark.behaviour(33)
def test_ctrl_c_while_joining(kafka: RealKafka, topic: str, consume: Consume) -> None:
    """At many moments of joining, one after the other; the member still joins."""
    consumer = consume(topic, group_id=f"group-of-{topic}")
    for _ in range(10):
        if consumer.assignment():
            break
        with interrupted_when_blocked(consumer), pytest.raises(KeyboardInterrupt):
            consumer.poll(30_000)
    poll_until(consumer, consumer.assignment)
    works_on(kafka, consumer, topic)


@pytest.mark.behaviour(33)
def test_ctrl_c_in_iteration(kafka: RealKafka, topic: str, idle: KafkaConsumer) -> None:
    with interrupted_when_blocked(idle), pytest.raises(KeyboardInterrupt):
        next(idle)
    kafka.admin.produce(topic, [b"1", b"2"])
    assert [next(idle).value for _ in range(2)] == [b"1", b"2"]


@pytest.mark.behaviour(33)
def test_after_ctrl_c_close_commits_and_leaves(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    group = f"group-of-{topic}"
    kafka.admin.produce(topic, [b"1", b"2", b"3"])
    consumer = consume(topic, group_id=group, enable_auto_commit=True)
    read_all(consumer, 3)
    with interrupted_when_blocked(consumer), pytest.raises(KeyboardInterrupt):
        consumer.poll(30_000)
    consumer.close()
    described = kafka.admin.client.describe_consumer_groups([group])[group].result(20)
    assert described.members == []
    assert consume(group_id=group).committed(TopicPartition(topic, 0)) == 3


@pytest.mark.behaviour(33)
@pytest.mark.parametrize("moment", ["taking over", "committing"])
def test_ctrl_c_just_before_the_listener_is_called(
    kafka: RealKafka,
    topic: str,
    consume: Consume,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    """Ctrl-C can interrupt a rebalance; the next poll() completes it."""
    kafka.admin.produce(topic, [b"1"])
    listener = Listener()
    consumer = consume(group_id=f"group-of-{topic}", enable_auto_commit=True)
    consumer.subscribe([topic], listener=listener)
    if moment == "committing":
        assert len(read_all(consumer, 1)) == 1
        other = kafka.admin.create_topic(f"other-{topic}")
        consumer.subscribe([topic, other], listener=listener)
    wanted = ApplyAssignment if moment == "taking over" else CommitSync
    method = "ask_now" if moment == "taking over" else "result"
    ask = getattr(consumer._core, method)
    interrupted: list[object] = []

    def interrupt(event: object, **options: bool) -> object:
        if isinstance(event, wanted) and not interrupted:
            interrupted.append(event)
            os.kill(os.getpid(), signal.SIGINT)
        return ask(event, **options)

    monkeypatch.setattr(consumer._core, method, interrupt)
    with pytest.raises(KeyboardInterrupt):
        poll_until(consumer, lambda: False)
    assert len(interrupted) == 1
    if moment == "taking over":
        assert listener.calls == []
        assert len(read_all(consumer, 1)) == 1
        assert listener.calls == [("assigned", set(partitions_of(topic, 1)))]
    else:
        poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        assert [name for name, _ in listener.calls][:3] == ["assigned", "revoked", "assigned"]
        assert consumer.committed(TopicPartition(topic, 0)) == 1
