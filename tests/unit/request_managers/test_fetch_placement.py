"""Many partitions, few of them busy: quiet ones move to their own slot, and return."""

from __future__ import annotations

import pytest

from tandem_kafka.network.request import Purpose, ToNode, UnsentRequest
from tandem_kafka.types import TopicPartition
from tests.unit.request_managers.fetching import (
    Found,
    fetch_response,
    forgotten,
    records,
    requested_offsets,
    send,
)
from tests.unit.request_managers.world import World

ALL = [TopicPartition("orders", number) for number in range(200)]
BUSY, QUIET = ALL[0], ALL[2]


def purpose(unsent: UnsentRequest) -> Purpose:
    assert isinstance(unsent.destination, ToNode)
    return unsent.destination.purpose


def by_purpose(requests: list[UnsentRequest]) -> dict[Purpose, UnsentRequest]:
    return {purpose(unsent): unsent for unsent in requests}


def sorted_out(**options: int) -> tuple[World, dict[Purpose, UnsentRequest]]:
    """A consumer of 200 partitions, one of them with records, after two seconds."""
    world = World(leaders=(1,) * len(ALL), **options)
    world.assign(*ALL, at=10)
    first = by_purpose(send(world))
    assert set(first) == {Purpose.FETCH_0, Purpose.FETCH_1}
    world.respond(first[Purpose.FETCH_0], fetch_response({BUSY: Found(records(10))}))
    (again,) = send(world, after_ms=1_500)
    assert requested_offsets(again) == {0: 12}, "the session already has the others"
    world.respond(again, fetch_response({BUSY: Found(records(12))}))
    return world, by_purpose(send(world))


def test_inactive_partitions_get_their_own_fetch() -> None:
    _, requests = sorted_out()
    busy, quiet = requests[Purpose.FETCH_0], requests[Purpose.FETCH_QUIET]
    assert requested_offsets(busy) == {0: 14}
    assert sorted(forgotten(busy)) == [number for number in range(2, 200) if number % 2 == 0]
    assert set(requested_offsets(quiet)) == set(forgotten(busy))


@pytest.mark.parametrize(
    ("options", "quiet_ms"),
    [
        ({}, 5_000),
        ({"request_timeout_ms": 6_000}, 3_000),
        ({"fetch_max_wait_ms": 8_000}, 8_000),
        ({"fetch_min_bytes": 1_000}, 500),
    ],
)
def test_the_fetch_of_quiet_partitions_may_wait_longer(
    options: dict[str, int], quiet_ms: int
) -> None:
    _, requests = sorted_out(**options)
    assert requests[Purpose.FETCH_QUIET].message.max_wait_ms == quiet_ms
    assert requests[Purpose.FETCH_0].message.max_wait_ms == options.get("fetch_max_wait_ms", 500)


def test_a_quiet_partition_returns_with_its_first_record() -> None:
    world, requests = sorted_out()
    world.respond(
        requests[Purpose.FETCH_QUIET], fetch_response({QUIET: Found(records(10))}, session_id=8)
    )
    world.respond(requests[Purpose.FETCH_0], fetch_response({}))
    again = by_purpose(send(world, after_ms=1_000))
    assert requested_offsets(again[Purpose.FETCH_0]) == {QUIET.partition: 12}
    assert forgotten(again[Purpose.FETCH_QUIET]) == [QUIET.partition]
    assert world.subscription.get(QUIET).slot == 0


def test_a_quiet_partition_returns_after_a_seek() -> None:
    world, requests = sorted_out()
    world.managers.positions.seek(QUIET, 3, -1)
    world.respond(requests[Purpose.FETCH_0], fetch_response({}))
    again = by_purpose(send(world, after_ms=1_000))
    assert requested_offsets(again[Purpose.FETCH_0]) == {QUIET.partition: 3}, (
        "not behind the parked fetch"
    )


def test_few_partitions_are_not_moved() -> None:
    world = World(leaders=(1,) * 4)
    world.assign(*ALL[:4], at=10)
    for _ in range(5):
        for unsent in send(world, after_ms=2_000):
            assert purpose(unsent) is not Purpose.FETCH_QUIET
            world.respond(unsent, fetch_response({}))


def test_a_fetch_checks_only_changed_partitions() -> None:
    world, requests = sorted_out()
    slots = world.managers.fetch._placement.slots.values()
    assert not any(slot.to_check for slot in slots)
    world.respond(requests[Purpose.FETCH_0], fetch_response({BUSY: Found(records(14))}))
    assert [state.tp for slot in slots for state in slot.to_check] == [BUSY]
    world.subscription.get(ALL[5]).paused = True
    (again,) = send(world)
    assert requested_offsets(again) == {0: 16}
