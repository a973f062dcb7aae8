"""Batches of our consumer are handed out one by one, and its poll() is called now and then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.confluent import Consumer, KafkaException, TopicPartition
from tandem_kafka.confluent import consumer as facade
from tandem_kafka.errors import TopicAuthorizationFailedError
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka.types import TopicPartition as Key


class FakeKafka:
    """Has records of partitions, and a clock that moves when it waits or is told to."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.now = 0
        clock = SimpleNamespace(now_ms=lambda: self.now, wall_ms=lambda: self.now)
        self._core = SimpleNamespace(clock=clock, driver=SimpleNamespace(wait=self._wait))
        self.positions: dict[Key, int] = {}
        self.ends: dict[Key, int] = {}
        self.paused: set[Key] = set()
        self.polls: list[int] = []
        self.commits: list[dict[Key, OffsetAndMetadata]] = []
        self.error: Exception | None = None
        self.closed = False

    def _wait(self, _ready: Any, deadline_ms: int) -> bool:
        self.now = deadline_ms
        return False

    def poll(self, timeout_ms: float, max_records: int) -> dict[Key, list[Any]]:
        self.polls.append(max_records)
        if self.error is not None:
            raise self.error
        batch: dict[Key, list[Any]] = {}
        for key, begin in self.positions.items():
            end = min(self.ends.get(key, 0), begin + max_records)
            if begin < end and key not in self.paused:
                batch[key] = [record(key, offset) for offset in range(begin, end)]
                self.positions[key] = end
                return batch
        self.now += max(1, int(timeout_ms))
        return batch

    def assign(self, keys: Any) -> None:
        self.positions = {key: self.positions.get(key, 0) for key in keys}

    def unsubscribe(self) -> None:
        self.positions = {}

    def seek(self, key: Key, offset: Any) -> None:
        self.positions[key] = getattr(offset, "offset", offset)

    def pause(self, key: Key) -> None:
        self.paused.add(key)

    def resume(self, key: Key) -> None:
        self.paused.discard(key)

    def commit(self, offsets: Any, timeout_ms: float | None = None) -> None:
        del timeout_ms
        self.commits.append(dict(offsets))

    def commit_async(self, offsets: Any, callback: Any) -> None:
        self.commits.append(dict(offsets))
        callback(offsets, None)

    def bootstrap_connected(self) -> bool:
        return True

    def close(self, *, autocommit: bool) -> None:
        assert not autocommit
        self.closed = True


def record(key: Key, offset: int) -> Any:
    return SimpleNamespace(
        topic=key.topic, partition=key.partition, offset=offset, leader_epoch=3, value=b""
    )


A, B = Key("t", 0), Key("t", 1)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    fake = FakeKafka()
    monkeypatch.setattr(facade, "KafkaConsumer", lambda **_: fake)
    return fake


def consumer_of(kafka: FakeKafka, *keys: Key, **properties: Any) -> Consumer:
    config = {name.replace("_", "."): value for name, value in properties.items()}
    consumer = Consumer({"group.id": "g", **config})
    for key in keys:
        kafka.ends[key] = 10_000
    consumer.assign([TopicPartition(*key, 0) for key in keys])
    return consumer


def offsets(consumer: Consumer, count: int) -> list[int | None]:
    messages = [consumer.poll(1) for _ in range(count)]
    return [message.offset() for message in messages if message is not None]


def test_a_message_needs_no_call_of_our_consumer(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A)
    assert offsets(consumer, 6_000) == list(range(6_000))
    assert len(kafka.polls) <= 5


def test_lists_need_no_call_of_our_consumer(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A)
    found = consumer.consume(1_500, 1) + consumer.consume(1_000, 1)
    assert [message.offset() for message in found] == list(range(2_500))
    assert len(kafka.polls) <= 3
    assert consumer.position([TopicPartition("t", 0)])[0].offset == 2_500


def test_our_consumer_is_polled_for_one_record_while_messages_wait(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A)
    offsets(consumer, 10)
    calls = len(kafka.polls)
    kafka.now += 1_000
    assert offsets(consumer, 1) == [10]
    assert kafka.polls[calls:] == [1]


def test_messages_that_were_not_returned_are_not_committed(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A)
    offsets(consumer, 7)
    consumer.commit(asynchronous=False)
    assert kafka.commits == [{A: OffsetAndMetadata(7, "", 3)}]
    with pytest.raises(KafkaException, match="No offset stored"):
        consumer.commit(asynchronous=False)


def test_the_interval_commits_returned_messages(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A, auto_commit_interval_ms=500)
    offsets(consumer, 3)
    kafka.now += 600
    offsets(consumer, 1)
    assert kafka.commits == [{A: OffsetAndMetadata(3, "", 3)}]
    consumer.close()
    assert kafka.commits[1:] == [{A: OffsetAndMetadata(4, "", 3)}]
    assert kafka.closed


def test_only_stored_offsets_are_committed(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A, enable_auto_offset_store=False, auto_commit_interval_ms=100)
    offsets(consumer, 5)
    kafka.now += 600
    offsets(consumer, 5)
    assert kafka.commits == []
    consumer.store_offsets(offsets=[TopicPartition("t", 0, 2)])
    consumer.close()
    assert kafka.commits == [{A: OffsetAndMetadata(2, "", -1)}]


def test_a_seek_drops_messages_fetched_before_it(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A)
    offsets(consumer, 5)
    consumer.seek(TopicPartition("t", 0, 100))
    assert offsets(consumer, 3) == [100, 101, 102]


def test_a_seek_wins_over_a_fetch_in_flight(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumer_of(kafka, A)
    poll = kafka.poll

    def poll_and_seek(timeout_ms: float, max_records: int) -> Any:
        batch = poll(timeout_ms, max_records)
        monkeypatch.setattr(kafka, "poll", poll)
        consumer.seek(TopicPartition("t", 0, 50))  # as another thread would
        return batch

    monkeypatch.setattr(kafka, "poll", poll_and_seek)
    assert offsets(consumer, 2) == [50, 51]


def test_buffered_messages_of_a_paused_partition_are_returned_after_resume(
    kafka: FakeKafka,
) -> None:
    consumer = consumer_of(kafka, A, B)
    assert offsets(consumer, 5) == [0, 1, 2, 3, 4]
    consumer.pause([TopicPartition("t", 0)])
    assert kafka.paused == {A}
    other = consumer.poll(1)
    assert other is not None
    assert (other.partition(), other.offset()) == (1, 0)
    consumer.pause([TopicPartition("t", 1)])
    assert consumer.poll(1) is None
    consumer.resume([TopicPartition("t", 0)])
    assert offsets(consumer, 3) == [5, 6, 7]


def test_buffered_messages_of_a_lost_partition_are_dropped(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A, B)
    offsets(consumer, 5)
    consumer.incremental_unassign([TopicPartition("t", 0)])
    assert kafka.commits == [{A: OffsetAndMetadata(5, "", 3)}]
    message = consumer.poll(1)
    assert message is not None
    assert message.partition() == 1


def test_an_error_is_reported_once_and_does_not_spin(kafka: FakeKafka) -> None:
    consumer = consumer_of(kafka, A)
    kafka.error = TopicAuthorizationFailedError("t")
    first = consumer.poll(1)
    assert first is not None
    assert first.error() == 29
    calls = len(kafka.polls)
    assert consumer.poll(1) is None
    assert len(kafka.polls) - calls <= 15


def test_poll_raises_the_exception_of_a_callback(kafka: FakeKafka) -> None:
    def fail(_text: str) -> None:
        raise ValueError("mine")

    consumer = Consumer({"group.id": "g"}, stats_cb=fail, **{"statistics.interval.ms": 10})
    kafka.config = {"client_id": "c"}  # type: ignore[attr-defined]
    kafka.group_metadata = lambda: SimpleNamespace(generation_id=1)  # type: ignore[attr-defined]
    kafka.now += 200
    with pytest.raises(ValueError, match="mine"):
        consumer.poll(0)
