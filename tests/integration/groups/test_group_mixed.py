"""A group shared with other clients, moved between protocols, and KIP-848's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tandem_kafka import SubscriptionPattern, TopicPartition
from tandem_kafka.errors import (
    AssignorError,
    InconsistentGroupProtocolError,
    InvalidRegularExpressionError,
    UnsupportedAssignorError,
)
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import Member, options_of, owned, settled
from tests.integration.polling import Clock, Consume, assigned, partitions_of, poll_until
from tests.waiting import until, wait_until

pytestmark = pytest.mark.partitions(4)


def _produce(kafka: RealKafka, topic: str, first: int, count: int) -> list[bytes]:
    values = [f"{number}".encode() for number in range(first, first + count)]
    kafka.admin.produce(topic, [Record(v, partition=n % 4) for n, v in enumerate(values)])
    return values


@contextmanager
def _confluent(kafka: RealKafka, topic: str, protocol: str) -> Iterator[confluent_kafka.Consumer]:
    config: dict[str, object] = {
        "bootstrap.servers": kafka.bootstrap(),
        "group.id": f"group-{topic}",
        "auto.offset.reset": "earliest",
        "group.protocol": protocol,
        "log_level": 0,
    }
    if protocol == "classic":
        config.update({"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300})
    consumer = confluent_kafka.Consumer(config)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_shared_with_confluent_kafka(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    ours = options_of("eager" if protocol == "classic" else protocol)
    member = Member(consume(group_id=f"group-{topic}", **ours), [topic])
    wait_until(lambda: len(owned(member)) == 4)
    values: list[bytes] = []
    with _confluent(kafka, topic, protocol) as other:
        _wait_while(lambda: len(other.assignment()) != 2, lambda: other.poll(0.05))
        wait_until(lambda: len(owned(member)) == 2)
        sent = _produce(kafka, topic, 0, 400)

        def take() -> None:
            message = other.poll(0.05)
            if message is not None and message.error() is None:
                values.append(message.value())

        _wait_while(lambda: len(values) + len(member.records) < 400, take)
    assert sorted(values + member.values) == sorted(sent)
    settled([member], 4)
    member.stop()
    assert member.error is None


@contextmanager
def _polled(consumer: kafka_python.KafkaConsumer) -> Iterator[None]:
    """Poll on a thread. With less time for each `poll()`, kafka-python joins again every time."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            consumer.poll(500)

    with ThreadPoolExecutor(1, "kafka-python") as thread, closing(consumer):
        polls = thread.submit(run)
        try:
            yield
        finally:
            ended.set()
            polls.result()


class _Breakable(RangePartitionAssignor):  # type: ignore[misc]
    """Raises in assign() while `broken` is True."""

    name = "range"
    broken = False

    def assign(self, *args: Any) -> Any:
        if self.broken:
            raise ArithmeticError("a bug in an assignor of the user")
        return super().assign(*args)


def test_other_clients_go_on_when_the_assignor_of_our_leader_fails(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    assignor, errors = _Breakable(), []
    options = {**options_of("eager"), "partition_assignment_strategy": [assignor]}
    leader = consume(topic, group_id=f"group-{topic}", **options)
    assigned(leader, partitions_of(topic, 4))
    theirs = kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap(),
        group_id=f"group-{topic}",
        partition_assignment_strategy=[RangePartitionAssignor],
        heartbeat_interval_ms=300,
        session_timeout_ms=6_000,
    )
    assignor.broken = True
    with _confluent(kafka, topic, "classic") as other, _polled(theirs):

        def poll_all() -> None:
            other.poll(0.05)
            try:
                leader.poll(50)
            except AssignorError as error:
                errors.append(error)

        def shares() -> list[int]:
            return sorted(len(each.assignment()) for each in (leader, other, theirs))

        _wait_while(lambda: shares() != [1, 1, 2] or not errors, poll_all)
        assert len(errors) == 1
    assert "a bug in an assignor" in str(errors[0])


def test_a_group_is_shared_with_kafka_python(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    member = Member(consume(group_id=f"group-{topic}", **options_of("eager")), [topic])
    wait_until(lambda: len(owned(member)) == 4)
    other = kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap(),
        group_id=f"group-{topic}",
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
    )
    values: list[bytes] = []
    try:
        _wait_while(lambda: len(other.assignment()) != 2, lambda: other.poll(50))
        wait_until(lambda: len(owned(member)) == 2)
        sent = _produce(kafka, topic, 0, 400)

        def take() -> None:
            values.extend(r.value for rs in other.poll(50).values() for r in rs)

        _wait_while(lambda: len(values) + len(member.records) < 400, take)
    finally:
        other.close()
    assert sorted(values + member.values) == sorted(sent)
    settled([member], 4)
    member.stop()


def _wait_while(condition: Callable[[], bool], turn: Callable[[], object]) -> None:
    for _ in until(lambda: not condition()):
        turn()


def test_assignors_change_in_two_rolling_restarts_and_not_in_one(
    topic: str, consume: Consume
) -> None:
    def join(*assignors: type) -> Member:
        options = {**options_of("eager"), "partition_assignment_strategy": list(assignors)}
        return Member(consume(group_id=f"group-{topic}", **options), [topic])

    old = join(RangePartitionAssignor)
    wait_until(lambda: len(owned(old)) == 4)
    unknown_member = join(RoundRobinPartitionAssignor)
    wait_until(lambda: unknown_member.error)
    assert isinstance(unknown_member.error, InconsistentGroupProtocolError)
    assert "roundrobin" in str(unknown_member.error)
    both = join(RoundRobinPartitionAssignor, RangePartitionAssignor)
    settled([old, both], 4)
    old.stop()
    new = join(RoundRobinPartitionAssignor)
    settled([both, new], 4)
    for member in (both, new):
        member.stop()


def test_the_sticky_assignor_keeps_partitions_in_place(topic: str, consume: Consume) -> None:
    """Eager: everything is revoked, but each member sends its former partitions in JoinGroup."""

    def join() -> Member:
        options = {
            **options_of("eager"),
            "partition_assignment_strategy": [StickyPartitionAssignor],
        }
        return Member(consume(group_id=f"group-{topic}", **options), [topic])

    members = [join(), join()]
    settled(members, 4)
    before = [owned(member) for member in members]
    members.append(join())
    settled(members, 4)
    kept = [
        len(owned(member) & former_assignment)
        for member, former_assignment in zip(members, before, strict=False)
    ]
    assert sum(kept) == 3, "one of the four has moved"
    for member in members:
        member.stop()
        assert member.error is None


def _join_with_partitions(other: kafka_python.KafkaConsumer, topic: str) -> None:
    """Join until there are some: a leader that has no metadata of the topic stays with none."""
    for _ in until(other.assignment):
        other.unsubscribe()
        other.subscribe([topic])
        begun = Clock()
        while not other.assignment() and begun.seconds < 10:
            other.poll(50)


@pytest.mark.partitions(12)
@pytest.mark.parametrize("leader", ["ours", "kafka-python"])
def test_the_sticky_assignor_is_shared_with_kafka_python(
    kafka: RealKafka, topic: str, consume: Consume, leader: str
) -> None:
    """Any leader understands the former partitions of the others."""
    strategy = {"partition_assignment_strategy": [StickyPartitionAssignor]}
    ours: list[Member] = []

    def join() -> None:
        options = {**options_of("eager"), **strategy}
        ours.append(Member(consume(group_id=f"group-{topic}", **options), [topic]))

    def held() -> list[set[TopicPartition]]:
        return [*map(owned, ours), set(other.assignment())]

    def shared() -> bool:
        return all(len(each) == 12 // (len(ours) + 1) for each in held())

    if leader == "ours":
        join()
        wait_until(lambda: len(owned(ours[0])) == 12)
    other = kafka_python.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap(),
        group_id=f"group-{topic}",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
        **strategy,
    )
    try:
        _join_with_partitions(other, topic)
        _wait_while(lambda: not shared(), lambda: other.poll(50))
        while len(ours) < 2:
            join()
            _wait_while(lambda: not shared(), lambda: other.poll(50))
        before = held()
        join()
        _wait_while(lambda: not shared(), lambda: other.poll(50))
        *after, _newcomer, theirs = held()
    finally:
        other.close()
    assert all(
        now < former_assignment
        for now, former_assignment in zip([*after, theirs], before, strict=True)
    )
    for member in ours:
        member.stop()
        assert member.error is None


@pytest.mark.full("takes long on a real broker")
@pytest.mark.behaviour(50)
def test_a_regex_is_matched_by_the_coordinator(topic: str, consume: Consume) -> None:
    consumer = consume(group_id=f"group-{topic}", **options_of("consumer"))
    consumer.subscribe(pattern=SubscriptionPattern(f"{topic}.*"))
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)
    consumer.unsubscribe()
    consumer.subscribe([topic])  # 63: the expression is taken back
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)


@pytest.mark.behaviour(52, 95)
def test_every_poll_raises_an_invalid_regex_until_unsubscribe(topic: str, consume: Consume) -> None:
    consumer = consume(group_id=f"group-{topic}", **options_of("consumer"))
    consumer.subscribe(pattern=SubscriptionPattern("(("))
    for _ in range(3):
        with pytest.raises(InvalidRegularExpressionError, match="missing closing"):
            poll_until(consumer, lambda: False)
    consumer.unsubscribe()
    consumer.subscribe([topic])
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)


@pytest.mark.behaviour(91)
def test_the_error_of_an_unknown_remote_assignor_lists_the_known_ones(
    topic: str, consume: Consume
) -> None:
    options = {**options_of("consumer"), "group_remote_assignor": "nobody"}
    consumer = consume(topic, group_id=f"group-{topic}", **options)
    with pytest.raises(UnsupportedAssignorError, match="uniform"):
        poll_until(consumer, lambda: False)


def test_auto_selects_kip_848(
    topic: str, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        consumer = consume(topic, group_id=f"group-{topic}", group_protocol="auto")
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)
    assert "uses 'consumer'" in caplog.text
    assert "falls back to 'classic'" not in caplog.text
