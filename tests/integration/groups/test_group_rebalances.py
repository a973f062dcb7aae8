"""Two and more members on a real broker, under every way of rebalancing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import (
    PROTOCOLS,
    Member,
    check_pairs,
    options_of,
    owned,
    settled,
)
from tests.integration.polling import Consume, poll_until

pytestmark = [
    pytest.mark.parametrize("protocol", PROTOCOLS),
    pytest.mark.partitions(4),
]


Join = Callable[..., Member]


def produce(kafka: RealKafka, topic: str, first: int, count: int) -> list[bytes]:
    values = [f"{number}".encode() for number in range(first, first + count)]
    kafka.admin.produce(topic, [Record(v, partition=n % 4) for n, v in enumerate(values)])
    return values


def _read(consumer: KafkaConsumer) -> int:
    """How far the consumer is, over all of its partitions."""
    return sum(consumer.position(tp) for tp in consumer.assignment())


@pytest.fixture
def join(consume: Consume, topic: str, protocol: str) -> Iterator[Join]:
    made: list[Member] = []

    def make(**options: Any) -> Member:
        consumer = consume(group_id=f"group-{topic}", **{**options_of(protocol), **options})
        made.append(Member(consumer, [topic]))
        return made[-1]

    yield make
    for member in made:
        member.stall()


@pytest.mark.behaviour(67)
def test_listeners_are_called_in_pairs_and_never_with_an_empty_revocation(
    join: Join,
) -> None:
    members = [join(), join(), join()]
    settled(members, 4)
    members[1].stop()
    settled([members[0], members[2]], 4)
    members[0].stop()
    settled([members[2]], 4)
    members[2].stop()
    for member in members:
        check_pairs(member.listener)
        assert "lost" not in {what for what, _ in member.listener.calls}


@pytest.mark.behaviour(68, 69)
def test_revoked_partitions_are_still_assigned_inside_the_listener(
    kafka: RealKafka, topic: str, consume: Consume, join: Join, protocol: str
) -> None:
    produce(kafka, topic, 0, 40)
    seen: list[tuple[bool, list[int]]] = []
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))

    class Look:
        def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
            seen.append((partitions <= consumer.assignment(), []))

        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            positions = [consumer.position(tp) for tp in partitions]
            consumer.commit_sync()
            seen.append((partitions <= consumer.assignment(), positions))

    consumer.subscribe([topic], listener=Look())
    poll_until(consumer, lambda: _read(consumer) == 40)
    other = join()
    # Eagerly, either of the two may have its share first.
    poll_until(consumer, lambda: len(consumer.assignment()) == len(owned(other)) == 2)
    assert all(inside for inside, _ in seen)
    assert any(positions and all(p == 10 for p in positions) for _, positions in seen)


@pytest.mark.every_version
@pytest.mark.behaviour(72)
def test_returned_records_are_committed_before_their_revocation(
    kafka: RealKafka, topic: str, consume: Consume, join: Join, protocol: str
) -> None:
    produce(kafka, topic, 0, 400)
    committed: list[int | None] = []
    consumer = consume(
        group_id=f"group-{topic}",
        enable_auto_commit=True,
        auto_commit_interval_ms=3_600_000,
        **options_of(protocol),
    )

    class Look:
        def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
            pass

        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            committed.extend(consumer.committed(tp) for tp in partitions)

    consumer.subscribe([topic], listener=Look())
    poll_until(consumer, lambda: _read(consumer) == 400)
    other = join()
    poll_until(consumer, lambda: len(owned(other)) == 2)
    assert committed
    assert set(committed) == {100}
    assert other.records == []


@pytest.mark.full("takes long on a real broker")
def test_commits_during_a_rebalance_complete_after_it(
    kafka: RealKafka, topic: str, join: Join
) -> None:
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            kafka.admin.produce(topic, [Record(b"value", partition=n) for n in range(4)])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        members = [join(), join()]
        settled(members, 4)
        for _ in range(6):
            guest = join()
            settled([*members, guest], 4)
            guest.stop()
            settled(members, 4)
    finally:
        ended.set()
        writer.join()
    for member in members:
        member.stop()
        assert member.error is None
        assert member.handled == len(member.records) > 0
