"""A loop accepts records, another thread acknowledges some, and the network thread takes both."""

from __future__ import annotations

from contextlib import suppress

from tandem_kafka.errors import IllegalStateError
from tandem_kafka.state import deliveries, locked_records, locks
from tandem_kafka.state.locks import Acknowledgement, AcknowledgeType, LockedRun
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_seed
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
