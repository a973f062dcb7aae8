"""Partitions during a parked fetch, and the bypass connection."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.request import Purpose, UnsentRequest
from tandem_kafka.types import TopicPartition
from tests.unit.request_managers.fetching import (
    Found,
    fetch_response,
    forgotten,
    records,
    requested_offsets,
    send,
)
from tests.unit.request_managers.test_fetch_placement import by_purpose
from tests.unit.request_managers.world import World

ALL = [TopicPartition("orders", number) for number in range(4)]
END = 10


def caught_up(**options: Any) -> tuple[World, dict[Purpose, UnsentRequest]]:
    """All partitions are at the end of their logs, and both fetches are parked."""
    world = World(leaders=(1,) * len(ALL), **options)
    world.assign(*ALL, at=END)
    for number, (purpose, unsent) in enumerate(by_purpose(send(world)).items()):
        assert purpose in (Purpose.FETCH_0, Purpose.FETCH_1)
        requested = [tp for tp in ALL if tp.partition in requested_offsets(unsent)]
        found = {tp: Found(high_watermark=END) for tp in requested}
        world.respond(unsent, fetch_response(found, session_id=70 + number))
    parked = by_purpose(send(world, after_ms=1_000))
    assert set(parked) == {Purpose.FETCH_0, Purpose.FETCH_1}
    return world, parked


def resumed(
    world: World, parked: dict[Purpose, UnsentRequest], tp: TopicPartition
) -> UnsentRequest:
    """Pause, forget and resume a partition; return the fetch on the bypass."""
    slot = world.subscription.get(tp).slot
    world.subscription.get(tp).paused = True
    purpose = (Purpose.FETCH_0, Purpose.FETCH_1)[slot]
    world.respond(parked[purpose], fetch_response({}, session_id=70 + slot))
    (parked[purpose],) = send(world, after_ms=1_000)
    assert forgotten(parked[purpose]) == [tp.partition]
    world.subscription.get(tp).paused = False
    (unsent,) = send(world)
    assert set(by_purpose([unsent])) == {Purpose.FETCH_BYPASS}
    assert requested_offsets(unsent) == {tp.partition: END}
    return unsent


def test_a_paused_and_sought_partition_is_not_fetched_at_its_old_offset() -> None:
    """The broker would return unusable data immediately, again and again."""
    world, parked = caught_up()
    world.subscription.get(ALL[0]).paused = True
    world.managers.positions.seek(ALL[0], 3, -1)
    assert send(world) == [], "a paused partition is not fetched"
    world.respond(parked[Purpose.FETCH_0], fetch_response({}, session_id=70))
    (again,) = send(world, after_ms=1_000)
    assert (requested_offsets(again), forgotten(again)) == ({}, [0])
    world.subscription.get(ALL[0]).paused = False
    (beside,) = send(world)
    assert requested_offsets(beside) == {0: 3}


def test_a_partition_returns_to_the_slot_with_fewer() -> None:
    """With all of them in one slot, the broker would be idle while a response is processed."""
    world, parked = caught_up()
    beside = resumed(world, parked, ALL[1])
    world.respond(beside, fetch_response({ALL[1]: Found(high_watermark=END)}, session_id=72))
    world.respond(parked[Purpose.FETCH_0], fetch_response({}, session_id=70))
    requests = by_purpose(send(world, after_ms=1_000))
    assert requested_offsets(requests[Purpose.FETCH_0]) == {}, (
        "the session already has two of the four"
    )
    world.respond(parked[Purpose.FETCH_1], fetch_response({}, session_id=71))
    requests = by_purpose(send(world, after_ms=1_000))
    assert requested_offsets(requests[Purpose.FETCH_1]) == {1: END}
    slots = [world.subscription.get(tp).slot for tp in ALL]
    assert slots == [0, 1, 0, 1]


def test_a_failing_bypass_keeps_no_partition() -> None:
    """The broker may accept no further connection; the other two remain."""
    world, parked = caught_up()
    beside = resumed(world, parked, ALL[1])
    beside.future.fail(KafkaConnectionError("too many connections"))
    world.respond(parked[Purpose.FETCH_1], fetch_response({}, session_id=71))
    requests = by_purpose(send(world, after_ms=20))
    assert requested_offsets(requests[Purpose.FETCH_1]) == {1: END}
    assert Purpose.FETCH_BYPASS not in requests


def test_a_failed_bypass_is_retried_after_a_backoff() -> None:
    world, parked = caught_up()
    beside = resumed(world, parked, ALL[1])
    beside.future.fail(KafkaConnectionError("too many connections"))
    world.managers.positions.seek(ALL[0], 3, -1)
    assert send(world) == []
    requests = by_purpose(send(world, after_ms=1_000))
    assert requested_offsets(requests[Purpose.FETCH_BYPASS]) == {0: 3, 1: END}


@pytest.mark.parametrize(
    ("max_wait_ms", "behind_ms", "caught_up_ms"),
    [(5, 5, 5), (500, 10, 10), (2_000, 10, 40), (20_000, 10, 100)],
)
def test_long_waits_mean_few_fetches_of_partitions_that_have_caught_up(
    max_wait_ms: int, behind_ms: int, caught_up_ms: int
) -> None:
    world, _ = caught_up(fetch_max_wait_ms=max_wait_ms)
    world.managers.positions.seek(ALL[0], END - 2, -1)
    (beside,) = send(world)
    assert beside.message.max_wait_ms == behind_ms
    found = Found(records(END - 2), high_watermark=END)
    world.respond(beside, fetch_response({ALL[0]: found}, session_id=72))
    (beside,) = send(world, after_ms=1_000)
    assert requested_offsets(beside) == {0: END}
    assert beside.message.max_wait_ms == caught_up_ms
