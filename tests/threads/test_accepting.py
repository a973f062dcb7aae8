"""A loop accepts records, another thread acknowledges some, and the network thread takes both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from tandem_kafka.consumer.share import handing
from tandem_kafka.errors import IllegalStateError
from tandem_kafka.request_managers.share.response_handler import ResponseHandler
from tandem_kafka.state import deliveries, locked_records, locks
from tandem_kafka.state.locks import Acknowledgement, AcknowledgeType, LockedRun
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_line, each_seed
from tests.unit.consumer.share.test_handing import LOCK_MS, TP, World

RELEASE = AcknowledgeType.RELEASE
LAST = 60


def offsets_of(taken: list[Acknowledgement]) -> list[tuple[int, AcknowledgeType]]:
    return [(at, each.how) for each in taken for at in range(each.first, each.last + 1)]


class Threads:
    """The three threads, and what they did."""

    def __init__(self, seed: int) -> None:
        world = World(last=LAST)
        self.seed, self.records = seed, world.records
        self.run = LockedRun(world.locked, 0, LAST, 1)
        self.lockstep = Lockstep(seed, locks, locked_records)
        self.notices = list[bool]()
        self.working = {"loop", "worker"}
        self.taken, self.released = list[Acknowledgement](), set[int]()
        self.records.notice = lambda: self.notices.append(True)
        self.records.hand_out(self.run, LAST + 1, 0)

    def loop(self) -> None:
        for stop in range(1, LAST + 2):
            self.records.accept_up_to(self.run, stop)
            while self.run.taken[1] < stop and (self.seed + stop) % 5:  # a slow record
                self.lockstep.pause()
        self.working.remove("loop")

    def worker(self) -> None:
        for offset in (4, 1, LAST):
            with suppress(IllegalStateError):
                self.records.acknowledge(self.run, offset, RELEASE)
                self.released.add(offset)
        self.working.remove("worker")

    def network(self) -> None:
        while self.working or self._looks():
            self.lockstep.pause()
            if self._looks():
                self.notices.clear()
                self.taken += self.records.take_acknowledgements()

    def _looks(self) -> bool:
        return bool(self.notices) or self.records.gathered_ms is not None


@each_seed
def test_each_record_is_taken_once_though_most_are_accepted_without_a_notice(seed: int) -> None:
    threads = Threads(seed)
    threads.lockstep.run(loop=threads.loop, worker=threads.worker, network=threads.network)
    made = offsets_of(threads.taken)
    assert sorted(offset for offset, _ in made) == list(range(LAST + 1))
    assert {offset for offset, how in made if how is RELEASE} == threads.released
    assert not threads.records.handed()


@each_seed
def test_what_ends_meanwhile_is_always_an_earlier_delivery(seed: int) -> None:
    """It is handed out, on its way to the broker or forgotten, and the reader looks for it."""
    world = World()
    world.got(world.poll(3))
    [(chunk, _, _)] = world.handing.given
    lockstep = Lockstep(seed, deliveries, locked_records)
    if seed % 2:
        world.records.acknowledge(chunk.run, 1, RELEASE)
    else:
        world.records.accept_up_to(chunk.run, 3)

    def network() -> None:
        world.records.take_acknowledgements()
        world.records.forget_ended(world.clock.now_ms() + 2 * LOCK_MS)

    def reader() -> None:
        for _ in range(10):
            assert world.records.earlier(TP, world.locked.ranges) == [(0, 2, 1)]

    lockstep.run(network=network, reader=reader)
    assert not world.records.handed()


class Handing:
    """A reader that polls, perhaps twice in a millisecond, and what it was given."""

    def __init__(self, at: int, *, twice: bool) -> None:
        self.world = World(implicit=False)
        self.given = list[tuple[LockedRun, int]]()
        self.lockstep = Lockstep(0, locks, locked_records, handing, at=at)
        self._left = 3
        if twice:
            self._poll(1)

    def poll(self) -> None:
        self._poll(self._left)

    def _poll(self, most: int) -> None:
        self._left -= most
        self.world.got(found := self.world.poll(most))
        self.given += [
            (chunk.run, chunk.run.first + index)
            for chunk, start, stop in found
            for index in range(start, stop)
        ]

    def forget(self) -> None:
        """Lose the connection, as the network thread notes it."""
        self.world.locked.lose()
        self.world.records.forget_ended(self.world.clock.now_ms())


@each_line
def test_what_is_handed_out_while_it_is_locked_again_has_no_lock(at: int) -> Lockstep:
    """A leader that was elected again has forgotten the lock, and the session lives on."""
    reader = Handing(at, twice=False)
    handler: Any = SimpleNamespace(_records=reader.world.records)
    place = reader.world.locked.place
    end_locks: Callable[..., None] = ResponseHandler._end_locks
    reader.lockstep.run(reader=reader.poll, network=lambda: end_locks(handler, place, [(0, 2, 1)]))
    for run, offset in reader.given:
        assert run.partition.lost or run.lock_times(offset) == locks._ENDED
    return reader.lockstep


@each_line
def test_what_is_handed_out_while_its_lock_is_forgotten_is_an_earlier_delivery(
    at: int,
) -> Lockstep:
    reader = Handing(at, twice=True)
    reader.lockstep.run(reader=reader.poll, network=reader.forget)
    earlier = reader.world.records.earlier(TP, reader.world.locked.ranges)
    known = {each for first, last, _ in earlier for each in range(first, last + 1)}
    assert {offset for _, offset in reader.given} == known
    return reader.lockstep
