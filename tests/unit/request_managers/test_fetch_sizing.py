"""The fetch size of a partition."""

from __future__ import annotations

import pytest

from tandem_kafka.network.request import UnsentRequest
from tests.unit.request_managers.fetching import Found, consume, fetch_response, records, send
from tests.unit.request_managers.world import TP, TP1, World

MIB = 1_048_576


def sizes(unsent: UnsentRequest) -> dict[int, int]:
    return {
        p.partition: p.partition_max_bytes
        for topic in unsent.message.topics
        for p in topic.partitions
    }


class Reader:
    """A consumer of one partition whose broker the test controls."""

    def __init__(self, **options: int) -> None:
        self.world = World(leaders=(1,), fetch_buffer_max_bytes=2**30, **options)
        self.world.assign(TP, at=0)
        self.offset = 0

    def next_size(self, size: int = 0, latency_ms: int = 5) -> int:
        """Return the requested size; respond with one record of the given size."""
        (unsent,) = send(self.world)
        found = Found(records(self.offset, 1, size=size))
        self.world.respond(unsent, fetch_response({TP: found}, session_id=0), latency_ms=latency_ms)
        self.offset += 1
        consume(self.world)
        return sizes(unsent)[0]


def test_the_size_doubles_while_full_responses_are_quick() -> None:
    reader = Reader()
    sizes = [reader.next_size(size=size * MIB) for size in (1, 2, 4, 4, 4)]
    assert sizes == [MIB, 2 * MIB, 4 * MIB, 4 * MIB, 4 * MIB]


def test_a_response_that_is_not_full_changes_nothing() -> None:
    reader = Reader()
    assert [
        reader.next_size(size=MIB),
        reader.next_size(size=1_000),
        reader.next_size(latency_ms=9_000),
    ] == [
        MIB,
        2 * MIB,
        2 * MIB,
    ]
    assert reader.next_size() == 2 * MIB


def test_a_slow_response_halves_the_size_down_to_the_first() -> None:
    reader = Reader()
    reader.next_size(size=MIB)
    reader.next_size(size=2 * MIB)
    slow = [reader.next_size(size=4 * MIB, latency_ms=3_000) for _ in range(3)]
    assert slow == [4 * MIB, 2 * MIB, MIB]
    assert reader.next_size(size=MIB, latency_ms=1_000) == MIB
    assert reader.next_size(size=MIB) == MIB, "neither fast nor slow"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(100_000, [100_000] * 3), (3 * MIB, [MIB, 2 * MIB, 3 * MIB]), (0, [0, 0, 0])],
)
def test_the_option_is_never_exceeded(limit: int, expected: list[int]) -> None:
    reader = Reader(max_partition_fetch_bytes=limit)
    assert [reader.next_size(size=4 * MIB) for _ in range(3)] == expected


def test_each_partition_has_its_own_size_and_a_new_assignment_resets_it() -> None:
    world = World(leaders=(1, 1), fetch_buffer_max_bytes=2**30)
    world.assign(TP, TP1, at=0)
    unsent = {next(iter(sizes(each))): each for each in send(world)}
    world.respond(unsent[0], fetch_response({TP: Found(records(0, 1, size=MIB))}))
    (again,) = send(world)
    assert sizes(again) == {0: 2 * MIB}
    world.respond(unsent[1], fetch_response({TP1: Found(records(0, 1, size=10))}))
    (other,) = send(world)
    assert sizes(other) == {1: MIB}
    world.respond(again, fetch_response({}))
    world.assign(TP1)
    world.assign(TP, TP1, at=0)
    assert {size for each in send(world) for size in sizes(each).values()} <= {MIB}
