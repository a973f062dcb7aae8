"""A standing fetch makes the same requests, byte for byte, as the Python implementation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tandem_kafka.native import native
from tandem_kafka.request_managers.fetching.fetch_manager import FetchManager
from tandem_kafka.request_managers.fetching.session import MAX_EPOCH, FetchSession, FetchTarget
from tandem_kafka.request_managers.fetching.sizing import FetchSizing
from tandem_kafka.runtime import Random
from tandem_kafka.shared.fetch_buffer import FetchBuffer
from tandem_kafka.shared.partition import AssignedPartition, Position
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.framing import encode_nullable, frame_request
from tandem_kafka.wire.messages import FetchResponse
from tests.unit.records.making import Rec, batch, message

pytestmark = pytest.mark.skipif(native is None, reason="only the native transport repeats fetches")

HISTORIES = range(400)
LONGEST = 12
LIMIT = 1 << 22
ROOM = 1 << 26
NO_STOP = 2**63 - 1
WAIT_MS = 500

_TOPIC = FetchResponse.FetchableTopicResponse
_PARTITION = _TOPIC.PartitionData


@dataclass
class Answer:
    """What a response says about one partition."""

    tp: TopicPartition
    records: bytes
    end: int
    high_watermark: int
    error: int = 0
    replica: int = -1
    leader: bool = False
    diverging: bool = False


class World:
    """A standing fetch, and the session and the sizes in Python."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.version = random.randrange(7, 19)
        self.session_id = random.randrange(1, 2**31)
        self.correlation_id = random.randrange(2**31)
        self.client_id = random.choice([None, "reader", "é" * 40])
        self.rack = random.choice(["", "b"])
        self.buffer = FetchBuffer(ROOM)
        self.sizing = FetchSizing(LIMIT)
        self.ids = {f"topic-{n}": UUID(int=random.getrandbits(128) | 1) for n in range(3)}
        names = [random.choice(sorted(self.ids)) for _ in range(random.randrange(1, 7))]
        self.states = {
            tp: self.state(tp) for tp in (TopicPartition(t, n) for n, t in enumerate(names))
        }
        self.asked = {tp: self.sizing.bytes_for(state) for tp, state in self.states.items()}
        self.epochs = dict.fromkeys(self.states, 5)
        self.session = self.opened()
        self.sent_records: dict[TopicPartition, list[int]] = {tp: [] for tp in self.states}
        self.stop_at = dict.fromkeys(self.states, NO_STOP)
        self.credit = ROOM
        self.room = ROOM

    def state(self, tp: TopicPartition) -> AssignedPartition:
        state = AssignedPartition(tp)
        state.set_position(Position(self.random.randrange(10**9)))
        state.high_watermark = state.read_ahead
        return state

    def opened(self) -> FetchSession:
        """A session whose first incremental request is in flight."""
        session = FetchSession(incremental=True)
        for tp in self.states:
            session.include(tp, self.target(tp))
        session.build()
        session.handle_response(self.session_id, 0)
        if self.random.random() < 0.2:
            session._epoch = MAX_EPOCH - self.random.randrange(3)
        session.build()
        return session

    def target(self, tp: TopicPartition) -> FetchTarget:
        offset, epoch = self.states[tp].read_ahead, self.epochs[tp]
        return FetchTarget(self.ids[tp.topic], offset, epoch, self.asked[tp])

    def change(self) -> None:
        """Python seeks, pauses or follows a new leader epoch, and sends the next fetch itself."""
        random = self.random
        for offsets in self.sent_records.values():
            offsets.clear()
        for tp in [tp for tp in self.states if random.random() < 0.5]:
            kind = random.choice(["seek", "pause", "epoch"])
            if kind == "seek":
                self.states[tp].set_position(Position(random.randrange(10**9)))
                self.states[tp].high_watermark = self.states[tp].read_ahead
            elif kind == "epoch":
                self.epochs[tp] += 1
            if kind != "pause":
                self.session.include(tp, self.target(tp))
            elif len(self.states) > 1:
                self.session.exclude(tp)
                del self.states[tp]
        assert self.session.handle_response(self.session_id, 0)
        self.session.build()

    def start(self) -> Any:
        assert native is not None
        return native.StandingFetch(
            queue=self.buffer.queue,
            bell=native.Bell(),
            version=self.version,
            correlation_id=self.correlation_id,
            client_id=self.client_id,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=LIMIT,
            session_id=self.session_id,
            session_epoch=self.session.epoch,
            rack=self.rack,
            targets=[
                (
                    state,
                    state.base,
                    tp.topic,
                    self.ids[tp.topic].bytes,
                    tp.partition,
                    self.epochs[tp],
                    state.read_ahead,
                    self.asked[tp],
                    self.stop_at[tp],
                    self.credit,
                    state,
                )
                for tp, state in self.states.items()
            ],
            smallest_bytes=self.sizing.first,
            largest_bytes=self.sizing.limit,
            room=self.room,
            lasts_ms=60_000,
        )

    # --- responses -----------------------------------------------------------------------------

    def answer(self, tp: TopicPartition) -> Answer:
        """New records, or only a new high watermark."""
        random, begin = self.random, self.states[tp].read_ahead
        if random.random() < 0.2:
            return Answer(tp, b"", begin, begin + random.randrange(3))
        data, at = b"", begin - random.choice([0, 0, 1]) if begin else 0
        for _ in range(random.randrange(1, 4)):
            count, size = random.randrange(1, 4), random.choice([5, 5, 2_000, 600_000])
            count += 1 if at < begin else 0
            data += batch([Rec(value=b"v" * size)] * count, at, epoch=5)
            self.sent_records[tp] += range(max(at, begin), at + count)
            end = at + count
            at = end + random.choice([0, 0, 7])  # compaction leaves gaps
        if random.random() < 0.3:
            data += batch([Rec(value=b"cut")], at)[:-2]  # truncated by the broker
        return Answer(tp, data, end, end + random.randrange(3))

    def answers(self) -> list[Answer]:
        tps = [tp for tp in self.states if self.random.random() < 0.6]
        self.random.shuffle(tps)
        tps.sort(key=lambda tp: tp.topic)  # a response names a topic once
        return [self.answer(tp) for tp in tps]

    def frame(self, answers: list[Answer], **changes: Any) -> bytes:
        topics: dict[str, list[Any]] = {}
        for each in answers:
            topics.setdefault(each.tp.topic, []).append(self.entry(each))
        response = FetchResponse(
            throttle_time_ms=changes.get("throttle_time_ms", 0),
            error_code=changes.get("error_code", 0),
            session_id=changes.get("session_id", self.session_id),
            responses=[
                _TOPIC(topic=name, topic_id=self.ids[name], partitions=entries)
                for name, entries in topics.items()
            ],
        )
        tags = b"\0" if self.version >= 12 else b""
        body: bytes = response.encode(version=self.version)
        return self.correlation_id.to_bytes(4, "big") + tags + body

    def entry(self, answer: Answer) -> Any:
        entry = _PARTITION(
            partition_index=answer.tp.partition,
            error_code=answer.error,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.high_watermark - 1,
            log_start_offset=3,
            aborted_transactions=None,
            preferred_read_replica=answer.replica,
            records=answer.records,
        )
        tags = set()
        if answer.leader:
            entry.current_leader = _PARTITION.LeaderIdAndEpoch(leader_id=2, leader_epoch=6)
            tags.add("current_leader")
        if answer.diverging:
            entry.diverging_epoch = _PARTITION.EpochEndOffset(epoch=4, end_offset=1)
            tags.add("diverging_epoch")
        if tags:
            entry.tags = tags
        return entry

    # --- the Python implementation ---------------------------------------------------------------

    def next_request(self, answers: list[Answer]) -> bytes:
        """What Python sends after a usual response."""
        assert self.session.handle_response(self.session_id, 0)
        for each in answers:
            if not each.records:
                continue
            state = self.states[each.tp]
            self.sizing.learn(state, self.asked[each.tp], len(each.records), took_ms=1)
            self.asked[each.tp] = self.sizing.bytes_for(state)
            # The standing fetch has moved the read-ahead before.
            assert state.read_ahead == each.end
            self.session.include(each.tp, self.target(each.tp))
        config = SimpleNamespace(fetch_min_bytes=1, fetch_max_bytes=LIMIT, client_rack=self.rack)
        manager: Any = SimpleNamespace(
            _context=SimpleNamespace(config=config, read_committed=False)
        )
        sent = FetchManager._message(manager, self.session.build(), WAIT_MS)
        client_id = encode_nullable(self.client_id)
        return frame_request(sent, self.version, self.correlation_id, client_id)

    def taken(self) -> dict[TopicPartition, list[int]]:
        """The offsets in the queue, in its order."""
        taken: dict[TopicPartition, list[int]] = {tp: [] for tp in self.sent_records}
        while (chunk := self.buffer.take()) is not None:
            assert chunk.reader is not None
            records = chunk.reader.take(1_000_000)
            taken[chunk.partition.tp] += [record.offset for record in records]
        return taken


def play(world: World, order: Any, length: int) -> int:
    """Play usual responses; returns how many fetches were repeated."""
    played = 0
    for _ in range(length):
        answers = world.answers()
        if not any(each.records for each in answers):
            if world.random.random() < 0.9:
                continue
            time.sleep(0.011)  # sooner, Python pauses
        frame = world.frame(answers)
        request = order.respond(frame)
        assert request == world.next_request(answers)
        for each in answers:
            state = world.states[each.tp]
            assert state.high_watermark == each.high_watermark
            assert state.last_stable_offset == each.high_watermark - 1
            assert state.log_start_offset == 3
            assert state.read_ahead == each.end
        played += 1
    return played


@pytest.mark.parametrize("first", HISTORIES[::50])
def test_random_histories_give_the_same_requests(first: int) -> None:
    for seed in range(first, first + 50):
        world = World(seed)
        total = 0
        for _ in range(world.random.randrange(1, 4)):
            order = world.start()
            played = play(world, order, world.random.randrange(1, LONGEST))
            received, sent, latencies, _, _ = order.take_counts()
            assert received[0] == sent[0] == latencies[0] == played
            total += played
            assert world.buffer.repeated[0] == total
            check_end(world, order)
            assert order.respond(world.frame(world.answers())) is None, "it has ended"
            world.change()


def check_end(world: World, order: Any) -> None:
    """End the order: the session, the sizes in memory and the queue agree with Python's."""
    epoch, moves = order.end()
    assert epoch == world.session.epoch
    tps = list(world.states)
    for index, offset, max_bytes, _ in moves:
        known = world.session.target(tps[index])
        assert (offset, max_bytes) == (known.offset, known.max_bytes)
    kept = [tps[index] for index, *_ in moves]
    assert list(world.session._partitions)[len(tps) - len(kept) :] == kept
    expected = {tp: list(offsets) for tp, offsets in world.sent_records.items()}
    assert world.taken() == expected


def refused(change: Callable[[World, Answer], Any]) -> None:
    """A response that this change makes unusual is left to Python, like all after it."""
    for seed in range(20):
        world = World(seed)
        order = world.start()
        play(world, order, world.random.randrange(3))
        tp = world.random.choice(sorted(world.states))
        before = world.states[tp].read_ahead, world.states[tp].high_watermark
        answer = Answer(tp, batch(base_offset=before[0], epoch=5), before[0] + 1, before[0] + 1)
        changes = change(world, answer) or {}
        answers = [answer, answer] if changes.pop("twice", False) else [answer]
        assert order.respond(world.frame(answers, **changes)) is None, seed
        assert (world.states[tp].read_ahead, world.states[tp].high_watermark) == before
        assert order.respond(world.frame(world.answers())) is None, "it has ended"
        assert order.end()[0] == world.session.epoch


@pytest.mark.parametrize(
    "changes",
    [
        {"error_code": 71},
        {"session_id": 0},
        {"throttle_time_ms": 5},
        {"twice": True},
    ],
    ids=str,
)
def test_an_unusual_response_is_for_python(changes: dict[str, Any]) -> None:
    refused(lambda *_: dict(changes))


@pytest.mark.parametrize("field", ["error", "replica"])
def test_a_partition_with_an_error_or_a_replica_is_for_python(field: str) -> None:
    # The error 6, NOT_LEADER_OR_FOLLOWER, or the broker 6.
    refused_from(11, lambda answer: setattr(answer, field, 6))


@pytest.mark.parametrize("field", ["leader", "diverging"])
def test_a_hint_is_for_python(field: str) -> None:
    refused_from(12, lambda answer: setattr(answer, field, True))


def refused_from(version: int, change: Callable[[Answer], None]) -> None:
    """As `refused`, for the seeds whose version has the field."""

    def checked(world: World, answer: Answer) -> dict[str, Any]:
        if world.version < version:
            return {"error_code": 71}
        change(answer)
        return {}

    refused(checked)


@pytest.mark.parametrize(
    "data",
    [
        lambda at: batch(base_offset=max(0, at - 5), epoch=5),  # it ends before the offset
        lambda at: batch(base_offset=at)[:-1],  # no whole batch
        lambda at: message(at, b"old format"),
        lambda at: batch(base_offset=at) + b"\xff" * 40,  # garbage behind it
    ],
    ids=["before", "cut", "legacy", "garbage"],
)
def test_records_that_python_must_judge_are_for_python(data: Callable[[int], bytes]) -> None:
    def change(world: World, answer: Answer) -> None:
        answer.records = data(world.states[answer.tp].read_ahead)

    refused(change)


def test_an_unknown_partition_is_for_python() -> None:
    def change(_: World, answer: Answer) -> None:
        answer.tp = TopicPartition(answer.tp.topic, 99)

    refused(change)


@pytest.mark.parametrize("limit", ["stop", "credit", "room"])
def test_limits_end_it(limit: str) -> None:
    for seed in range(20):
        world = World(seed)
        tp = world.random.choice(sorted(world.states))
        begin = world.states[tp].read_ahead
        if limit == "stop":
            world.stop_at[tp] = begin + 2
        elif limit == "credit":
            world.credit = 10_000
        else:
            world.room = 10_000
        order = world.start()
        big = b"v" * (5 if limit == "stop" else 20_000)
        data = batch([Rec(value=big), Rec(value=big)], begin, epoch=5)
        answer = Answer(tp, data, begin + 2, begin + 2)
        assert order.respond(world.frame([answer])) is None


def test_an_empty_response_that_comes_at_once_is_for_python() -> None:
    world = World(1)
    assert world.start().respond(world.frame([])) is None


def test_a_broken_response_is_for_python() -> None:
    world = World(1)
    order = world.start()
    assert order.respond(world.frame(world.answers())[:-1]) is None
