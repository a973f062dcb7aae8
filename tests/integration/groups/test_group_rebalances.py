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
    exactly_once,
    options_of,
    owned,
    settled,
)
from tests.integration.polling import Consume, partitions_of, poll_until
from tests.waiting import wait_until

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


@pytest.mark.every_version
@pytest.mark.behaviour(66)
def test_a_second_member_gets_its_share_and_returns_it_when_it_leaves(
    kafka: RealKafka, topic: str, join: Join, protocol: str
) -> None:
    sent = produce(kafka, topic, 0, 400)
    first = join()
    wait_until(lambda: len(first.records) == 400)
    second = join()
    settled([first, second], 4)
    sent += produce(kafka, topic, 400, 400)
    wait_until(lambda: len(first.records) + len(second.records) >= 800)
    kept = owned(first)
    second.stop()
    settled([first], 4)
    sent += produce(kafka, topic, 800, 400)
    assert exactly_once(sent, [first, second])
    assert first.error is second.error is None
    if protocol != "eager":
        # Only what must move, moves (KIP-429, KIP-848).
        moved = [tps for what, tps in first.listener.calls if what == "revoked"]
        assert [len(tps) for tps in moved] == [2]
        assert not moved[0] & kept


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


@pytest.mark.behaviour(70)
def test_seek_and_pause_inside_on_partitions_assigned_precede_any_record(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    produce(kafka, topic, 0, 400)
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))
    first, *others = partitions_of(topic, 4)

    class Choose:
        def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
            if first in partitions:
                consumer.seek(first, 90)
                consumer.pause(*others)

        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            pass

    consumer.subscribe([topic], listener=Choose())
    got = poll_until(consumer, lambda: consumer.assignment() and consumer.position(first) == 100)
    assert {(record.partition, record.offset) for record in got} == {
        (0, offset) for offset in range(90, 100)
    }


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


@pytest.mark.behaviour(57)
def test_added_partitions_are_read(kafka: RealKafka, topic: str, join: Join) -> None:
    members = [join(metadata_max_age_ms=500), join(metadata_max_age_ms=500)]
    settled(members, 4)
    kafka.admin.add_partitions(topic, 6)
    settled(members, 6)
    sent = produce(kafka, topic, 0, 600)
    assert exactly_once(sent, members)
