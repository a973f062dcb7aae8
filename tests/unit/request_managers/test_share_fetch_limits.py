"""How many records a share consumer acquires, by what its application has asked for and handled."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.config import Config
from tandem_kafka.request_managers.share.fetch_limits import FetchLimits
from tandem_kafka.state.locked_records import LockedRecords, Pace
from tandem_kafka.state.locks import LockedPartition
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.clock import SimClock

LOCK_MS = 30_000


class World:
    """An application with a certain pace."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.clock.advance_to(10_000)
        self.records = LockedRecords(self.clock)
        self.limits = FetchLimits(Config(), self.records)

    def handle(self, count: int, each_ms: float) -> None:
        """Handle records, one by one or many in a millisecond."""
        pace = self.records.pace
        for _ in range(count if each_ms >= 1 else int(count * each_ms)):
            pace.given_ms = self.clock.now_ms()
            self.clock.advance_to(self.clock.now_ms() + max(1, int(each_ms)))
            pace.note(1 if each_ms >= 1 else int(1 / each_ms), self.clock.now_ms(), LOCK_MS)

    def ask(self, count: int) -> None:
        self.records.begin_call(self.clock.now_ms())
        self.records.wanted = count
        self.records.ask(waits=True)

    def limit(self, brokers: int = 1, *, fetching: bool = False) -> int:
        return self.limits.records(brokers, fetching=fetching)

    def wait(self, count: int, deliveries: int = 1) -> LockedPartition:
        place = TopicPartition("orders", 0), uuid.uuid4(), 1, memoryview(b"")
        locked = LockedPartition(*place, ((0, count - 1, deliveries),), self.records)
        locked.since_ms = locked.requested_ms = self.clock.now_ms()
        self.records.add(locked)
        return locked


def test_at_first_a_fetch_acquires_what_a_call_asks_for() -> None:
    world = World()
    assert world.limit() == 0
    world.ask(1)
    assert world.limit() == 1
    world.ask(10_000)
    assert world.limit() == Config().max_poll_records
    world.wait(1)
    assert world.limit() == 0


def test_what_is_acquired_ahead_grows_with_what_was_handled() -> None:
    world = World()
    found = []
    for count in (50, 50, 300, 1_600, 10_000, 100_000):
        world.handle(count, 0.01)
        found.append(world.limit())
    assert found == sorted(found)
    assert found[0] <= 25
    assert found[-1] == 10_000


@pytest.mark.parametrize(
    ("each_ms", "ahead"), [(1, 200), (10, 20), (100, 2), (1_000, 1), (6_000, 1), (7_500, 0)]
)
def test_what_is_acquired_ahead_is_soon_handled(each_ms: int, ahead: int) -> None:
    world = World()
    world.handle(2_000, each_ms)
    assert world.limit() == ahead


def test_a_slow_record_ends_it_for_two_locks() -> None:
    world = World()
    world.handle(1_000, 1)
    assert world.limit()
    world.handle(1, LOCK_MS // 4)
    assert not world.limit()
    world.handle(2 * LOCK_MS - 100, 1)
    assert not world.limit()
    world.handle(200, 1)
    assert world.limit()


def test_nothing_is_acquired_ahead_while_a_record_is_slow() -> None:
    world = World()
    world.handle(1_000, 1)
    world.clock.advance_to(world.clock.now_ms() + LOCK_MS // 4)
    assert not world.limit()


def test_nothing_is_acquired_ahead_behind_what_was_delivered_before() -> None:
    world = World()
    world.handle(1_000, 1)
    world.limits.retried = True
    assert not world.limit()
    world.ask(1)
    assert world.limit() == 1


@pytest.mark.parametrize(
    ("brokers", "each_ms", "turns", "limit"),
    [(4, 1, 1, 50), (4, 1_000, 1, 1), (4, 3_000, 4, 1), (12, 1_000, 12, 1)],
)
def test_brokers_are_asked_at_once_or_in_turn(
    brokers: int, each_ms: int, turns: int, limit: int
) -> None:
    world = World()
    world.handle(1_000, each_ms)
    assert world.limit(brokers) == limit
    assert world.limits.turns == turns
    assert bool(world.limit(brokers, fetching=True)) == (turns == 1)


@pytest.mark.parametrize(
    ("brokers", "busy", "empty", "held_ms"),
    [
        (1, False, 0, 500),
        (1, True, 0, 5),
        (1, True, 3, 40),
        (1, True, 8, 100),
        (4, False, 0, 5),
        (4, False, 8, 125),
        (4, True, 8, 100),
        (12, False, 8, 41),
    ],
)
def test_a_fetch_is_parked_briefly_in_turn_and_while_the_application_works(
    brokers: int, *, busy: bool, empty: int, held_ms: int
) -> None:
    world = World()
    world.ask(1)
    assert world.limit(brokers)
    session: Any = SimpleNamespace(busy=busy, empty=empty)
    world.limits.empty = brokers * empty
    assert world.limits.held_ms(session) == held_ms


def test_a_limit_is_exact_until_much_is_acquired_ahead() -> None:
    world, modes = World(), []
    for count in (0, 100, 100_000):
        world.handle(count, 0.01)
        world.ask(500)
        modes.append(world.limits.fields(world.limit(), 0)["share_acquire_mode"])
    assert modes == [1, 1, 0]


def test_a_pace_follows_what_was_slow_at_once() -> None:
    pace = Pace()
    for _ in range(10):
        pace.note(100, 10, LOCK_MS)
    assert pace.per_ms == 10
    pace.given_ms = 10
    pace.note(1, 2_010, LOCK_MS)
    assert pace.per_ms is not None
    assert pace.per_ms < 1


@pytest.mark.parametrize(
    ("deliveries", "locks", "kept"), [(1, 1, 20), (1, 3, 5), (1, 11, 0), (2, 3, 20), (2, 11, 0)]
)
def test_what_waits_is_kept_within_bounds(deliveries: int, locks: int, kept: int) -> None:
    """What was delivered before might have no delivery left."""
    world = World()
    world.ask(5)
    locked = world.wait(20, deliveries)
    now_ms = world.clock.now_ms() + locks * LOCK_MS
    assert min(20, world.limits.most_kept(locked, now_ms)) == kept
