"""The records of a share group: tuples with a lock, made when someone looks at them."""

from __future__ import annotations

import copy
import pickle
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tandem_kafka import ConsumerRecord, ShareRecord
from tandem_kafka.config import Config
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.iteration import Feed, Loop, feed_of
from tandem_kafka.consumer.share.record import ShareRecords
from tandem_kafka.consumer.share.unpacking import Chunk, Unpacker
from tandem_kafka.errors import (
    ForkedConsumerError,
    IllegalStateError,
    KafkaError,
    RecordLockLostError,
)
from tandem_kafka.runtime import Clock
from tandem_kafka.runtime.clock import MonotonicClock
from tandem_kafka.runtime.native import native
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    AcknowledgeType,
    LockedPartition,
    LockedRun,
)
from tandem_kafka.state.polls import Polls
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.clock import SimClock
from tests.unit.records.making import Rec, batch

COUNT = 10
RELEASE = AcknowledgeType.RELEASE
DATA = batch([Rec(value=f"{number}".encode(), key=b"k") for number in range(COUNT)])


def chunk_of(clock: Clock | None = None, **options: Any) -> Chunk:
    """Return the chunk of a response, which the application has claimed."""
    owner = LockedRecords(clock or SimClock())
    ranges = ((0, COUNT - 1, 3),)
    locked = LockedPartition(TopicPartition("t", 0), uuid.uuid4(), 1, DATA, ranges, owner)
    locked.lock_ms = 30_000
    config = Config(**options)
    [chunk] = Unpacker(config, Deserializers(config)).unpack(locked)
    assert isinstance(chunk, Chunk)
    assert owner.hand_out(chunk.run, COUNT, 0)
    return chunk


@pytest.fixture
def chunk() -> Chunk:
    return chunk_of()


@pytest.fixture
def records(chunk: Chunk) -> ShareRecords[bytes, bytes]:
    return ShareRecords([chunk.made(0, 4), chunk.made(4, COUNT)])


def offsets(records: Any) -> list[int]:
    return [record.offset for record in records]


def fed(feed: Feed) -> Iterator[Any]:
    """Yield what a loop gets."""
    polls = Polls()

    def find_feed(loop: Any) -> None:
        if feed.given == len(feed):
            raise StopIteration
        loop._follow(feed, polls, polls.count)

    return type("Consumer", (Loop,), {"_find_feed": find_feed})()  # type: ignore[no-any-return]


def test_they_are_locked_records_with_the_fields_of_others(records: Any) -> None:
    assert len(records) == COUNT
    for at, record in enumerate(records):
        assert type(record) is ShareRecord
        assert (record.offset, record.key, record.value) == (at, b"k", f"{at}".encode())
        assert (record.delivery_count, record.is_locked) == (3, True)
    assert offsets(records) == offsets(records) == list(range(COUNT))
    assert (records[4].offset, records[-1].offset) == (4, COUNT - 1)
    assert offsets(records[2:6]) == [2, 3, 4, 5]


def test_a_record_that_someone_holds_is_not_made_into_another(chunk: Chunk) -> None:
    made = chunk.made(0, COUNT)
    held = [record for record in made if record.offset % 3 == 0]
    assert offsets(held) == [0, 3, 6, 9]
    assert held[1] is made[3]
    held[1].accept()
    assert [record.is_locked for record in made].count(False) == 1
    assert not made[3].is_locked


def test_deserialized_records_are_locked_too() -> None:
    chunk = chunk_of(value_deserializer=lambda value: {"number": int(value)})
    made = chunk.made(2, 5)
    assert [record.value["number"] for record in made] == [2, 3, 4]
    assert [type(record) for record in made] == [ShareRecord] * 3
    feed = feed_of(chunk.made(7, 9))
    assert [record.value for record in fed(feed)] == [{"number": 7}, {"number": 8}]


def test_a_feed_gives_locked_records_and_only_those_that_nobody_holds_again(chunk: Chunk) -> None:
    held = list(fed(feed_of(chunk.made(2, COUNT))))
    assert offsets(held) == list(range(2, COUNT))
    assert {type(record) for record in held} == {ShareRecord}
    held[0].accept()
    assert [record.is_locked for record in held] == [False] + [True] * (COUNT - 3)


#: What makes an acknowledgement unusual, and the error that it raises.
UNUSUAL: dict[str, tuple[Callable[[LockedRun, LockedRecords], object], type[KafkaError]]] = {
    "too late": (lambda run, _: setattr(run, "sure_until_ms", 0), RecordLockLostError),
    "lost": (lambda run, _: run.partition.lose(), RecordLockLostError),
    "locked again": (lambda run, _: run.end_locks(1, 1), RecordLockLostError),
    "forgotten": (lambda _, owner: owner.forget_ended(1 << 40), RecordLockLostError),
    "accepted by another call": (lambda run, _: setattr(run, "accepted", 2), IllegalStateError),
    "released": (lambda run, owner: owner.acknowledge(run, 1, RELEASE), IllegalStateError),
    "a fork": (lambda _, owner: setattr(owner, "_pid", -1), ForkedConsumerError),
    "a feed": (lambda run, _: run.begin_feed(0, Given(3), 0, accepts=True), IllegalStateError),
}


class Given(NamedTuple):
    """A feed that has given records."""

    given: int

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("how", ["accept", "release"])
@pytest.mark.parametrize("case", UNUSUAL)
def test_a_record_is_not_accepted_if_something_is_unusual(case: str, how: str) -> None:
    happens, error = UNUSUAL[case]
    chunk = chunk_of()
    first, second = chunk.made(0, 2)
    first.accept()  # the network thread knows from here on that it must look
    happens(chunk.run, chunk.run.partition.owner)
    with pytest.raises(error):
        getattr(second, how)()


def test_the_network_thread_is_told_of_an_acknowledgement_once_it_has_looked(chunk: Chunk) -> None:
    owner, told = chunk.run.partition.owner, list[int]()
    owner.notice = lambda: told.append(len(chunk.run.done))
    records = chunk.made(0, 4)
    for each in records[:3]:
        each.accept()
    assert told == [1]
    assert [(made.first, made.last) for made in owner.take_acknowledgements()] == [(0, 2)]
    records[3].accept()
    assert told == [1, 4]


def test_an_acknowledgement_takes_the_time_of_the_clock() -> None:
    for clock in (SimClock(), MonotonicClock()):
        chunk = chunk_of(clock)
        chunk.run.sure_until_ms = chunk.run.ends_ms = clock.now_ms() + 60_000
        first, second, third = chunk.made(0, 3)
        first.accept()
        second.accept()
        chunk.run.sure_until_ms = chunk.run.ends_ms = clock.now_ms()
        with pytest.raises(RecordLockLostError):
            third.accept()
        assert list(chunk.run.done) == [0, 1]


@pytest.mark.skipif(native is None, reason="the Python implementation has one way")
def test_usually_a_record_is_accepted_without_python_code(
    chunk: Chunk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = chunk.made(0, 2)
    first.accept()
    monkeypatch.setattr(chunk.run.partition.owner, "acknowledge", None)
    second.accept()
    monkeypatch.undo()
    assert not second.is_locked
    with pytest.raises(IllegalStateError):
        second.accept()


def test_a_loop_can_use_its_object_again_so_nothing_can_be_stored_in_it(chunk: Chunk) -> None:
    record = chunk.made(0, 1)[0]
    with pytest.raises(AttributeError, match="cannot have the attribute 'seen'"):
        record.seen = True


def test_a_record_with_another_value_has_the_same_lock(chunk: Chunk) -> None:
    decoded = chunk.made(3, 4)[0]._replace(value={"a": 1})
    assert (type(decoded), decoded.value, decoded.offset) == (ShareRecord, {"a": 1}, 3)
    decoded.accept()
    [made] = chunk.run.partition.owner.take_acknowledgements()
    assert (made.first, made.last, made.how) == (3, 3, AcknowledgeType.ACCEPT)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies_have_no_lock(chunk: Chunk, copied: Any) -> None:
    record = chunk.made(0, 1)[0]
    assert type(copied(record)) is ConsumerRecord
    assert copied(record) == record


def test_acknowledgements_are_taken_as_ranges_in_their_order(records: Any, chunk: Chunk) -> None:
    owner, listed = chunk.run.partition.owner, list(records)
    for at in (0, 1, 2, 5, 6):
        listed[at].accept()
    for at in (7, 4):
        listed[at].release()
    taken = [(made.first, made.last, made.how.name) for made in owner.take_acknowledgements()]
    assert taken == [(0, 2, "ACCEPT"), (5, 6, "ACCEPT"), (7, 7, "RELEASE"), (4, 4, "RELEASE")]
    listed[8].reject()
    listed[3].accept()
    listed[9].accept()
    taken = [(made.first, made.last, made.how.name) for made in owner.take_acknowledgements()]
    assert taken == [(8, 8, "REJECT"), (3, 3, "ACCEPT"), (9, 9, "ACCEPT")]
    assert owner.handed() == ()
