"""A standing fetch makes the same requests, byte for byte, as the Python implementation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka.runtime.native import native
from tandem_kafka.state.fetch_buffer import CompletedFetch
from tandem_kafka.types import TopicPartition
from tests.tier import sample
from tests.unit.records.making import Rec, batch, message
from tests.unit.request_managers.standing_world import Answer, World

pytestmark = pytest.mark.skipif(native is None, reason="only the native transport repeats fetches")

HISTORIES = range(400)
LONGEST = 12


class Limits:
    """What a standing fetch may bring, and for how long."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._passed_ms = 0
        self._others = world.buffer.queue.reserved_bytes

    def verdict(self, answers: list[Answer], response_bytes: int, took_ms: int) -> str:
        """Tell what a standing fetch does with a response with these answers."""
        world = self._world
        self._passed_ms += took_ms
        if self._passed_ms >= world.lasts_ms:
            return "python"
        sizes = {
            each.tp: self._kept(len(each.records), response_bytes)
            for each in answers
            if each.records
        }
        taken = world.buffer.held_bytes + sum(sizes.values()) + self._others
        if sizes and taken >= world.room:
            return "hold"
        over = any(world.states[tp].held_bytes + size >= world.limit for tp, size in sizes.items())
        return "python" if over else "repeat"

    def _kept(self, size: int, response_bytes: int) -> int:
        """What a chunk keeps alive: small records are copied out of a response."""
        return size if size < response_bytes // 2 else response_bytes


def play(world: World, fetch: Any, limits: Limits, length: int) -> int:
    """Play usual responses until it ends; returns how many fetches were repeated."""
    played = 0
    for _ in range(length):
        before = {tp: len(offsets) for tp, offsets in world.sent_records.items()}
        answers = world.answers()
        took_ms = world.random.choice([1, 100, 300, 900])
        if not any(each.records for each in answers):
            if world.random.random() < 0.9:
                continue
            took_ms = max(took_ms, 10)  # sooner, Python pauses
        frame = world.frame(answers)
        verdict = limits.verdict(answers, len(frame), took_ms)
        request = fetch.respond(frame, took_ms)
        if verdict == "python":
            assert request is None
            for tp, offsets in world.sent_records.items():
                del offsets[before[tp] :]
            break
        check_progress(world, answers)
        if verdict == "hold":
            assert request == b""
            request = released(world, fetch, len(frame))
            if request is None:
                assert world.next_request(answers, took_ms), "Python continues"
                break
        assert request == world.next_request(answers, took_ms)
        played += 1
    return played


def check_progress(world: World, answers: list[Answer]) -> None:
    for each in answers:
        state = world.states[each.tp]
        assert state.high_watermark == each.high_watermark
        assert state.last_stable_offset == each.last_stable_offset
        assert state.log_start_offset == 3
        assert state.read_ahead == each.end


def released(world: World, fetch: Any, received: int) -> bytes | None:
    """The request that is held, when there is room; None if the standing fetch ends before."""
    reserved = world.buffer.queue.reserved_bytes
    assert fetch.resume(0) is None
    assert fetch.hand_over() is None
    if world.random.random() < 0.5:
        check_targets(world, fetch)
        assert fetch.resume(0) is None
        assert fetch.hand_over() == (world.frame([]), received + 4)
        assert fetch.hand_over() is None
        assert world.buffer.queue.reserved_bytes == reserved
        return None
    world.release()
    request: bytes | None = fetch.resume(0)
    if request is None:
        # What other fetches may bring fills the buffer.
        assert reserved >= world.room
    return request


@pytest.mark.parametrize("first", sample(HISTORIES[::50], 2))
def test_random_histories_give_the_same_requests(first: int) -> None:
    for seed in range(first, first + 50):
        world = World(seed)
        total = 0
        for _ in range(world.random.randrange(1, 4)):
            limits = Limits(world)
            fetch = world.start()
            played = play(world, fetch, limits, world.random.randrange(1, LONGEST))
            received, sent, latencies, _, _ = fetch.take_counts()
            assert received[0] == sent[0] == latencies[0] == played
            total += played
            assert world.buffer.queue.repeated[0] == total
            check_end(world, fetch)
            assert fetch.respond(world.frame(world.answers())) is None, "it has ended"
            world.change()


def test_native_chunks_have_all_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made without their constructor: a new field must be set there, too."""
    world = World(1)
    world.lift_limits()
    [tp, *_] = world.states
    at = world.states[tp].read_ahead
    data = batch([Rec()], at, epoch=5)
    frame = world.frame([Answer(tp, data, at + 1, at + 1)])
    monkeypatch.setattr(CompletedFetch, "__init__", None)
    assert world.start().respond(frame, 1)
    chunk = world.buffer.queue.take()
    assert type(chunk) is CompletedFetch
    names = [field.name for field in dataclasses.fields(CompletedFetch)]
    assert [name for name in names if not hasattr(chunk, name)] == []


def check_targets(world: World, fetch: Any) -> list[TopicPartition]:
    """End it: the session's epoch and targets are Python's. Returns what it has moved."""
    epoch, moves = fetch.end()
    assert epoch == world.session.epoch
    tps = list(world.states)
    for index, offset, max_bytes, _ in moves:
        known = world.session.target(tps[index])
        assert (offset, max_bytes) == (known.offset, known.max_bytes)
    return [tps[index] for index, *_ in moves]


def check_end(world: World, fetch: Any) -> None:
    """End it: the session, the sizes in memory and the queue agree with Python's."""
    if fetch.progress()[2] is None:
        kept = check_targets(world, fetch)
        assert list(world.session._partitions)[len(world.states) - len(kept) :] == kept
    expected = {tp: list(offsets) for tp, offsets in world.sent_records.items()}
    assert world.taken() == expected


def refused(change: Callable[[World, Answer], Any]) -> None:
    """A response that this change makes unusual is left to Python, like all after it."""
    for seed in range(20):
        world = World(seed)
        world.lift_limits()
        limits = Limits(world)
        fetch = world.start()
        play(world, fetch, limits, world.random.randrange(3))
        tp = world.random.choice(sorted(world.states))
        before = world.states[tp].read_ahead, world.states[tp].high_watermark
        answer = Answer(tp, batch(base_offset=before[0], epoch=5), before[0] + 1, before[0] + 1)
        changes = change(world, answer) or {}
        answers = [answer, answer] if changes.pop("twice", False) else [answer]
        assert fetch.respond(world.frame(answers, **changes)) is None, seed
        assert (world.states[tp].read_ahead, world.states[tp].high_watermark) == before
        assert fetch.respond(world.frame(world.answers())) is None, "it has ended"
        assert fetch.end()[0] == world.session.epoch


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


@pytest.mark.parametrize("limit", ["stop", "share"])
def test_limits_end_it(limit: str) -> None:
    for seed in range(20):
        world = World(seed)
        world.lift_limits()
        tp = world.random.choice(sorted(world.states))
        begin = world.states[tp].read_ahead
        if limit == "stop":
            world.stop_at[tp] = begin + 2
        else:
            world.limit = 10_000
        fetch = world.start()
        big = b"v" * (5 if limit == "stop" else 20_000)
        data = batch([Rec(value=big), Rec(value=big)], begin, epoch=5)
        answer = Answer(tp, data, begin + 2, begin + 2)
        assert fetch.respond(world.frame([answer])) is None


def test_an_empty_response_that_comes_at_once_is_for_python() -> None:
    world = World(1)
    assert world.start().respond(world.frame([])) is None


def test_a_broken_response_is_for_python() -> None:
    world = World(1)
    fetch = world.start()
    assert fetch.respond(world.frame(world.answers())[:-1]) is None
