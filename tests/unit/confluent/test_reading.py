"""What poll(), consume() and the calls beside them promise, on the simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from kafka.errors import GroupAuthorizationFailedError

from tandem_kafka.confluent import Consumer
from tandem_kafka.errors import TopicAuthorizationFailedError
from tandem_kafka.types import TopicPartition as Key
from tandem_kafka.wire.messages import OffsetCommitRequest
from tandem_kafka_testing import Call, Simulation
from tests.unit.confluent.simulated import offsets, polled, simulated

A, B = Key("t", 0), Key("t", 1)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation() as made:
        made.cluster.create_topic("t", 2)
        yield made


def fill(simulation: Simulation, number: int, key: Key = A) -> None:
    simulation.cluster.produce(key, *[b"v"] * number)


def reading(simulation: Simulation, *keys: Key, **properties: Any) -> Consumer:
    """Return a consumer that has these partitions assigned by hand."""
    consumer = simulated(simulation, **properties)
    consumer.assign([TopicPartition(*key, 0) for key in keys])
    return consumer


def member(simulation: Simulation, **properties: Any) -> Consumer:
    """Return a consumer that the group has given all partitions."""
    consumer = simulated(simulation, **properties)
    consumer.subscribe(["t"])
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    return consumer


def committed(simulation: Simulation, key: Key = A) -> int | None:
    return simulation.cluster.committed("g", key)


class Pressed(BaseException):
    """Stands for Ctrl-C."""


class Raising:
    """A `stats_cb` that raises when it is told to."""

    def __init__(self) -> None:
        self.error: type[BaseException] | None = None

    def __call__(self, _: str) -> None:
        if self.error is not None:
            raise self.error


def test_messages_come_singly_and_in_lists(simulation: Simulation) -> None:
    fill(simulation, 2_500)
    consumer = reading(simulation, A)
    assert offsets(polled(consumer, 700)) == [(0, n) for n in range(700)]
    assert offsets(consumer.consume(1_500, 1)) == [(0, n) for n in range(700, 2_200)]
    assert consumer.position([TopicPartition("t", 0)])[0].offset == 2_200
    assert len(consumer.consume(1_000, 1)) == 300


def test_nothing_is_committed_while_a_list_is_collected(simulation: Simulation) -> None:
    consumer = member(simulation, auto__commit__interval__ms=200)
    seen: list[int | None] = []
    for at in range(500, 5_000, 500):
        simulation.after(at, lambda: (fill(simulation, 3), seen.append(committed(simulation))))
    messages = consumer.consume(1_000, 5)
    assert len(messages) == 27
    assert seen == [None] * 9
    polled(consumer, 1, 0.5)
    assert committed(simulation) == 27


def test_a_revocation_drops_and_does_not_commit_what_is_collected(simulation: Simulation) -> None:
    revoked: list[Any] = []
    consumer = simulated(simulation, group__protocol="consumer", auto__commit__interval__ms=0)
    consumer.subscribe(["t"], on_revoke=lambda _, partitions: revoked.extend(partitions))
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    for key in (A, B):
        fill(simulation, 3, key)
    got = offsets(consumer.consume(1, 1))
    other = simulation.consumer("t", group_id="g", group_protocol="consumer")
    other.poll(10)
    got += offsets(consumer.consume(100, 12))
    assert len(revoked) == 1
    gone = Key("t", revoked[0].partition)
    handed = [offset for partition, offset in got if partition == gone.partition]
    assert handed in ([], [0])
    assert (committed(simulation, gone) or 0) == len(handed)
    assert [n for partition, n in got if partition != gone.partition] == [0, 1, 2]


def test_a_rebalance_does_not_wait_for_waiting_messages(simulation: Simulation) -> None:
    stats, revoked = Raising(), list[Any]()
    consumer = simulated(simulation, stats_cb=stats, statistics__interval__ms=300)
    consumer.subscribe(["t"], on_revoke=lambda _, partitions: revoked.extend(partitions))
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    interrupted(consumer, simulation, stats)
    other = simulation.consumer("t", group_id="g")
    other.poll(10)
    for _ in range(10):
        simulation.sleep(1_000)
        assert consumer.poll(0) is not None or revoked
        if revoked:
            return
    pytest.fail("the other member waits until 21 messages are handled")


def test_a_close_commits_only_what_was_returned(simulation: Simulation) -> None:
    stats = Raising()
    consumer = member(simulation, stats_cb=stats, statistics__interval__ms=300)
    simulation.after(50, lambda: fill(simulation, 3))
    stats.error = Pressed
    with pytest.raises(Pressed):
        consumer.consume(10, 3)
    stats.error = None
    consumer.close()
    assert committed(simulation) is None


def test_a_list_that_ctrl_c_ends_comes_with_the_next_call(simulation: Simulation) -> None:
    stats = Raising()
    consumer = member(simulation, stats_cb=stats, statistics__interval__ms=300)
    simulation.after(50, lambda: fill(simulation, 3))
    stats.error = Pressed
    with pytest.raises(Pressed):
        consumer.consume(10, 3)
    stats.error = None
    assert offsets(polled(consumer, 1)) == [(0, 0)]
    assert offsets(consumer.consume(10, 1)) == [(0, 1), (0, 2)]


def test_the_error_of_a_callback_comes_after_the_list(simulation: Simulation) -> None:
    stats = Raising()
    consumer = member(simulation, stats_cb=stats, statistics__interval__ms=300)
    simulation.after(50, lambda: fill(simulation, 3))
    stats.error = ZeroDivisionError
    assert offsets(consumer.consume(10, 3)) == [(0, 0), (0, 1), (0, 2)]
    with pytest.raises(ZeroDivisionError):
        consumer.poll(0)
    stats.error = None
    assert consumer.poll(0.1) is None


def interrupted(consumer: Consumer, simulation: Simulation, stats: Raising) -> None:
    """Let records of both partitions wait that no call has returned."""
    for at in (20, 40, 60):
        simulation.after(at, lambda: (fill(simulation, 5), fill(simulation, 2, B)))
    stats.error = Pressed
    with pytest.raises(Pressed):
        consumer.consume(100, 3)
    stats.error = None


def test_waiting_messages_of_a_paused_partition_come_in_order_later(simulation: Simulation) -> None:
    stats = Raising()
    consumer = member(simulation, stats_cb=stats, statistics__interval__ms=300)
    interrupted(consumer, simulation, stats)
    consumer.pause([TopicPartition("t", 0)])
    assert offsets(consumer.consume(100, 0.5)) == [(1, n) for n in range(6)]
    consumer.resume([TopicPartition("t", 0)])
    assert offsets(consumer.consume(100, 0.5)) == [(0, n) for n in range(15)]


def test_waiting_messages_are_dropped_by_a_seek(simulation: Simulation) -> None:
    stats = Raising()
    consumer = member(simulation, stats_cb=stats, statistics__interval__ms=300)
    interrupted(consumer, simulation, stats)
    consumer.seek(TopicPartition("t", 0, 13))
    messages = offsets(consumer.consume(100, 0.5))
    assert [offset for partition, offset in messages if partition == 0] == [13, 14]
    assert [offset for partition, offset in messages if partition == 1] == list(range(6))


def test_waiting_messages_of_a_partition_given_up_are_dropped(simulation: Simulation) -> None:
    stats = Raising()
    consumer = reading(simulation, A, B, stats_cb=stats, statistics__interval__ms=300)
    interrupted(consumer, simulation, stats)
    consumer.incremental_unassign([TopicPartition("t", 0)])
    assert offsets(consumer.consume(100, 0.5)) == [(1, n) for n in range(6)]


def test_an_end_is_reported_again_after_a_seek(simulation: Simulation) -> None:
    fill(simulation, 2)
    consumer = reading(simulation, A, enable__partition__eof=True)
    assert offsets(polled(consumer, 4, 1)) == [(0, 0), (0, 1), (0, 2)]
    consumer.seek(TopicPartition("t", 0, 1))
    assert offsets(polled(consumer, 3, 1)) == [(0, 1), (0, 2)]
    assert consumer.poll(1) is None


def test_a_failed_asynchronous_commit_is_tried_again(simulation: Simulation) -> None:
    results: list[Any] = []
    consumer = member(simulation, on_commit=lambda error, _: results.append(error))
    fill(simulation, 3)
    assert len(polled(consumer, 3)) == 3
    code = GroupAuthorizationFailedError.errno
    refuse(simulation, code)
    consumer.commit()
    while not results:
        consumer.poll(0.1)
    assert results == [KafkaError(code)]
    assert committed(simulation) is None
    consumer.close()
    assert committed(simulation) == 3


def refuse(simulation: Simulation, code: int) -> None:
    """Let the next commit fail."""

    def respond(call: Call) -> Any:
        answer = call.default()
        simulation.cluster.coordination.of("g").offsets.committed.clear()
        for topic in answer.topics:
            for entry in topic.partitions:
                entry.error_code = code
        return answer

    simulation.cluster.script(OffsetCommitRequest, respond)


def test_only_stored_offsets_are_committed(simulation: Simulation) -> None:
    fill(simulation, 5)
    consumer = member(simulation, enable__auto__offset__store=False, auto__commit__interval__ms=100)
    polled(consumer, 5)
    consumer.poll(0.5)
    assert committed(simulation) is None
    consumer.store_offsets(offsets=[TopicPartition("t", 0, 2)])
    consumer.close()
    assert committed(simulation) == 2


def test_metadata_comes_back_as_it_was_given(simulation: Simulation) -> None:
    consumer = reading(simulation, A)
    for metadata in ("", "mine", None):
        given = {} if metadata is None else {"metadata": metadata}
        partitions = [TopicPartition("t", 0, 1, **given)]
        found = consumer.commit(offsets=partitions, asynchronous=False)
        assert found is not None
        assert found[0].metadata == metadata
        assert consumer.committed([TopicPartition("t", 0)])[0].metadata == metadata


def test_anything_with_a_topic_and_a_partition_is_a_partition(simulation: Simulation) -> None:
    class Other:
        topic, partition, offset = "t", 0, 2

    fill(simulation, 4)
    consumer = simulated(simulation)
    consumer.assign([Other()])  # type: ignore[list-item]
    assert offsets(polled(consumer, 2)) == [(0, 2), (0, 3)]
    consumer.commit(offsets=[Other()], asynchronous=False)  # type: ignore[list-item]
    assert consumer.committed([Other()])[0].offset == 2  # type: ignore[list-item]
    assert consumer.position([A])[0].offset == 4  # type: ignore[list-item]


def test_a_seek_without_an_offset_resets(simulation: Simulation) -> None:
    fill(simulation, 2)
    consumer = reading(simulation, A)
    polled(consumer, 2)
    consumer.seek(TopicPartition("t", 0))
    assert offsets(polled(consumer, 1)) == [(0, 0)]
    with pytest.raises(KafkaException) as raised:
        consumer.seek(TopicPartition("t", 0, -1000))
    assert raised.value.args[0] == KafkaError._INVALID_ARG


@pytest.mark.parametrize("known", ["on_lost", "on_revoke"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_callback_comes_in_the_call_after_a_late_poll(
    simulation: Simulation, protocol: str, known: str
) -> None:
    """Without `on_lost`, `on_revoke` stands for it."""
    gone: list[str] = []
    session = {"session__timeout__ms": 6_000} if protocol == "classic" else {}
    consumer = simulated(
        simulation, max__poll__interval__ms=6_500, group__protocol=protocol, **session
    )
    callbacks: dict[str, Any] = {"on_revoke": lambda *_: gone.append("on_revoke")}
    if known == "on_lost":
        callbacks["on_lost"] = lambda *_: gone.append("on_lost")
    consumer.subscribe(["t"], **callbacks)
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    fill(simulation, 1)
    simulation.sleep(8_000)
    message = consumer.poll(0.1)
    assert message is not None
    assert message.error() == KafkaError._MAX_POLL_EXCEEDED
    assert gone == []
    assert offsets(polled(consumer, 1)) == [(0, 0)]
    assert gone == [known]


def test_a_long_wait_is_not_a_late_poll(simulation: Simulation) -> None:
    consumer = member(simulation, max__poll__interval__ms=6_500, session__timeout__ms=6_000)
    assert consumer.poll(10) is None
    assert consumer.poll(1) is None


def test_an_error_is_reported_once_and_does_not_spin(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = reading(simulation, A)
    calls = []

    def poll(*arguments: Any) -> Any:
        calls.append(arguments)
        raise TopicAuthorizationFailedError("t")

    monkeypatch.setattr(consumer._kafka, "poll", poll)
    first = consumer.poll(1)
    assert first is not None
    assert first.error() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumer.poll(1) is None
    assert len(calls) <= 20


def test_a_callback_may_poll(simulation: Simulation) -> None:
    fill(simulation, 5)
    inner: list[Any] = []
    consumer = simulated(simulation)
    consumer.subscribe(["t"], on_assign=lambda its, _: inner.append(its.poll(0)))
    found = polled(consumer, 5)
    assert offsets([message for message in (*inner, *found) if message is not None]) == [
        (0, n) for n in range(5)
    ]


def test_a_subclass_without_a_constructor_is_closed() -> None:
    class Silent(Consumer):
        def __init__(self) -> None:
            pass

    consumer = Silent()
    for call in (consumer.poll, consumer.consume, consumer.assignment, consumer.memberid):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            call()
    consumer.close()


@pytest.mark.parametrize("by_hand", [False, True])
def test_offsets_of_a_deleted_topic_are_not_committed_to_the_new_one(
    simulation: Simulation, by_hand: bool
) -> None:
    fill(simulation, 5)
    properties = {"enable__auto__offset__store": not by_hand}
    consumer = member(simulation, topic__metadata__refresh__interval__ms=1_000, **properties)
    messages = polled(consumer, 5)
    if by_hand:
        consumer.store_offsets(messages[-1])
    simulation.cluster.recreate_topic("t")
    assert not polled(consumer, 1, timeout=12)
    assert committed(simulation) in {0, None}
    fill(simulation, 3)
    messages = polled(consumer, 3)
    assert offsets(messages) == [(0, 0), (0, 1), (0, 2)]
    if by_hand:
        consumer.store_offsets(messages[-1])
    polled(consumer, 1, timeout=12)
    assert committed(simulation) == 3
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_commit_of_a_deleted_topic_ends_at_once(simulation: Simulation, protocol: str) -> None:
    simulation.cluster.create_topic("u", 1)
    consumer = simulated(simulation, group__protocol=protocol)
    consumer.subscribe(["t", "u"])
    while len(consumer.assignment()) < 3:
        consumer.poll(0.1)
    simulation.cluster.delete_topic("u")
    begin_ms = simulation.clock.now_ms()
    with pytest.raises(KafkaException) as raised:
        consumer.commit(
            offsets=[TopicPartition("t", 0, 2), TopicPartition("u", 0, 3)], asynchronous=False
        )
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert simulation.clock.now_ms() - begin_ms < 1_000
    assert committed(simulation) == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_deleted_topic_holds_no_rebalance(simulation: Simulation, protocol: str) -> None:
    simulation.cluster.create_topic("u", 1)
    consumer = simulated(
        simulation, group__protocol=protocol, topic__metadata__refresh__interval__ms=1_000
    )
    consumer.subscribe(["^[tu]$"])
    while len(consumer.assignment()) < 3:
        consumer.poll(0.1)
    fill(simulation, 3)
    fill(simulation, 3, Key("u", 0))
    assert len(polled(consumer, 6)) == 6
    simulation.cluster.delete_topic("u")
    longest_ms = 0
    for _ in range(100):
        begin_ms = simulation.clock.now_ms()
        consumer.poll(0.2)
        longest_ms = max(longest_ms, simulation.clock.now_ms() - begin_ms)
    assert len(consumer.assignment()) == 2
    assert longest_ms < 1_000
