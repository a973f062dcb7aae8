"""What a `for` loop over a share consumer is given by feeds, and accepts by going on."""

from __future__ import annotations

import dis
import gc
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from tandem_kafka.consumer.reading.iteration import Loop
from tandem_kafka.consumer.share.unpacking import Chunk
from tandem_kafka.errors import IllegalStateError
from tandem_kafka.state.locks import AcknowledgeType, LockedPartition
from tandem_kafka.state.polls import Polls
from tandem_kafka.types import TopicPartition
from tests.tier import bytecodes
from tests.unit.consumer.share.test_handing import ACCEPT, GAP, RELEASE, World
from tests.unit.interrupts import Interrupter
from tests.unit.records.making import Rec, batch


class Iterating(World):
    """A reader that iterates; `finds` counts how often its loop has found a feed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.finds, self.polls = 0, Polls()
        self.loop: Any = type("Consumer", (Loop,), {"_find_feed": lambda _: self.find()})()

    def find(self) -> None:
        """Do what `ShareReading.find_feed` does."""
        handing, now_ms = self.handing, self.clock.now_ms()
        fed = handing.fed(now_ms)
        if fed is None:
            self.finds += 1
            found = self.poll(1)
            if not found:
                raise StopIteration
            fed = handing.begin_feed(found[0], Chunk.made, now_ms)
        until = self.clock.now_ms, fed.until_ms
        self.loop._follow(fed.feed, self.polls, self.polls.count, until)

    def next(self) -> int | None:
        """Return the offset of the next record, which counts as read."""
        record = next(self.loop, None)
        if record is None:
            return None
        self.read.append(record.offset)
        return self.read[-1]


def test_a_loop_finds_a_feed_for_many_records_once_it_is_quick() -> None:
    world = Iterating()
    assert [world.next() for _ in range(3)] == [0, 1, 2]
    assert world.finds == 2  # the first record, and those after it
    assert world.acknowledged() == [(0, ACCEPT), (1, ACCEPT)]
    assert world.locked.ahead == 3
    assert [world.next() for _ in range(3)] == [4, 5, None]
    assert world.acknowledged() == [(2, ACCEPT), (3, GAP), (4, ACCEPT), (5, ACCEPT)]


def test_a_feed_is_followed_for_a_few_milliseconds() -> None:
    world = Iterating(data=batch([Rec()] * 6, 0))
    world.next()
    for elapsed_ms, finds in ((0, 2), (4, 2), (1, 3), (4, 3), (1, 4)):
        world.pass_time(elapsed_ms)
        world.next()
        assert world.finds == finds
    assert world.read == [0, 1, 2, 3, 4, 5]


def test_a_slow_loop_claims_one_record_at_a_time() -> None:
    world = Iterating()
    for finds in (1, 2, 3):
        world.next()
        assert (world.finds, world.locked.given) == (finds, finds)
        assert world.handing.fed(world.clock.now_ms()) is None
        world.pass_time(6)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("ends", ["withdrawn", "lost"])
def test_a_loop_goes_on_with_no_record_that_is_withdrawn_or_lost(count: int, ends: str) -> None:
    world = Iterating()
    read = [world.next() for _ in range(count)]
    if ends == "lost":
        world.locked.lose()
    else:
        given = read[-1] + 1
        assert world.records.withdraw(world.locked) == [(given, 5)]
    assert world.next() is None
    accepted = [offset for offset, how in world.acknowledged() if how is ACCEPT]
    assert accepted == read == world.read


def test_a_feed_that_has_given_nothing_is_withdrawn_with_the_offset_behind_its_first() -> None:
    world = Iterating()
    world.next()
    world.find()  # claims the next record, and is interrupted before it is returned
    assert world.records.withdraw(world.locked) == [(2, 5)]
    assert world.next() is None
    assert world.acknowledged() == [(0, ACCEPT), (1, RELEASE)]


def test_what_is_forgotten_is_given_no_more() -> None:
    world = Iterating(implicit=False)
    world.next()
    world.next()
    run = world.records.handed()[0]
    assert world.records.forget_ended(run.ends_ms) == [run]
    assert world.handing.fed(world.clock.now_ms()) is None


def test_a_loop_accepts_explicitly_only_what_the_application_accepts() -> None:
    world = Iterating(implicit=False)
    for _ in range(3):
        world.next()
    assert world.acknowledged() == []
    assert [(run.accepted, run.in_work) for run in world.records.handed()] == [(0, [(0, 2)])]


def test_a_record_that_a_feed_has_accepted_cannot_be_acknowledged_again() -> None:
    world = Iterating()
    first = next(world.loop)
    second = next(world.loop)
    with pytest.raises(IllegalStateError):
        first.release()
    second.release()
    world.next()
    world.next()
    assert world.acknowledged() == [(0, ACCEPT), (1, RELEASE), (2, ACCEPT), (3, GAP)]


def test_a_record_that_a_feed_accepts_meanwhile_is_not_acknowledged_by_another_thread() -> None:
    """Both acknowledgements were sent. The loop goes on where Python may switch threads."""
    outcomes = set()
    for at in count():  # few of them may switch
        world = Iterating(data=batch([Rec()] * 6, 0))
        world.next()
        record, made = next(world.loop), list[tuple[int, AcknowledgeType]]()
        interrupter = Interrupter(at, lambda: _go_on_at_switch(interrupter, world, made))  # noqa: B023
        with suppress(IllegalStateError):
            interrupter.call(world.records.acknowledge, record._origin, record.offset, RELEASE)
        if interrupter.frame is None:
            break
        made += world.acknowledged()
        [how] = [how for offset, how in made if offset == record.offset]
        outcomes.add((how, bool(world.read[1:])))
    assert outcomes == {(ACCEPT, True), (RELEASE, True), (RELEASE, False)}


def _go_on_at_switch(
    interrupter: Interrupter, world: Iterating, made: list[tuple[int, AcknowledgeType]]
) -> None:
    """Let the loop and the network thread go on if CPython may switch threads here."""
    assert interrupter.frame is not None
    code, place = interrupter.frame.f_code, interrupter.instruction
    before = [each.opname for each in dis.get_instructions(code) if each.offset < place]
    if before and before[-1] in {"CALL", "CALL_KW", "JUMP_BACKWARD", "RESUME"}:
        world.next()
        made += world.acknowledged()


def test_what_a_loop_got_last_is_released() -> None:
    world = Iterating()
    for _ in range(3):
        world.next()
    world.handing.release_all()
    assert world.acknowledged() == [(0, ACCEPT), (1, ACCEPT), (2, RELEASE)]
    world.next()
    assert world.read == [0, 1, 2, 4]


def test_a_poll_goes_on_behind_a_loop_and_a_loop_behind_a_poll() -> None:
    world = Iterating()
    for _ in range(2):
        world.next()
    world.got(world.poll(1))
    world.next()
    world.next()
    assert world.read == [0, 1, 2, 4, 5]
    world.poll(1)
    assert [offset for offset, how in world.acknowledged() if how is ACCEPT] == world.read


def test_a_feed_that_has_ended_keeps_no_record_alive() -> None:
    """It has the record that it gave last, which no garbage collector finds, and that its lock."""
    world, tp = Iterating(), TopicPartition("dropped", 0)
    world.locked.tp = tp
    for _ in range(3):
        world.next()
    world.handing.end_feed()
    del world
    gc.collect()  # the feed, and with it the record
    gc.collect()
    kept = [each for each in gc.get_objects() if type(each) is LockedPartition]
    assert tp not in [each.tp for each in kept]


@pytest.mark.parametrize("calls_before", [0, 1, 3])
def test_an_interrupted_loop_neither_accepts_nor_strands_a_record(calls_before: int) -> None:
    for at in bytecodes():
        world = Iterating()
        for _ in range(calls_before):
            world.next()
        interrupter = Interrupter(at)
        try:
            interrupter.call(world.next)
        except KeyboardInterrupt:
            early = {each for each, how in world.acknowledged() if how is ACCEPT}
            assert early <= set(world.read), "accepted, and never handed out"
        else:
            early = set()
        while world.next() is not None:
            pass
        later = {each for each, how in world.acknowledged() if how is ACCEPT}
        # What a feed has given, and an interrupt keeps from the variable, counts as handed out.
        assert early | later == {0, 1, 2, 4, 5}
        assert not early & later
        assert {0, 1, 2, 4, 5} - set(world.read) <= {calls_before + calls_before // 3}
        if interrupter.frame is None:
            break
    assert at > 50


@pytest.mark.parametrize("calls_before", [0, 1, 3])
def test_each_record_of_a_loop_is_handed_out_or_withdrawn(calls_before: int) -> None:
    """The network thread withdraws before each bytecode."""
    for at in bytecodes():
        world, withdrawn = Iterating(), list[int]()

        def withdraw(world: World = world, withdrawn: list[int] = withdrawn) -> None:
            for first, last in world.records.withdraw(world.locked):
                withdrawn += range(first, last + 1)

        for _ in range(calls_before):
            world.next()
        interrupter = Interrupter(at, withdraw)
        interrupter.call(world.next)
        if interrupter.frame is None:
            withdraw()
        while world.next() is not None:
            pass
        made = world.acknowledged()
        assert [offset for offset, how in made if how is ACCEPT] == world.read
        back = [offset for offset, how in made if how in (GAP, RELEASE)]
        assert sorted([*world.read, *back, *withdrawn]) == list(range(6))
        if interrupter.frame is None:
            break
    assert at > 50
