"""What the reader hands out and accepts, also after Ctrl-C before each bytecode."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

import pytest

from tandem_kafka.config import Config
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.share.handing import Given, Handing
from tandem_kafka.consumer.share.unpacking import Unpacker
from tandem_kafka.errors import CorruptRecordError, IllegalStateError, RecordLockLostError
from tandem_kafka.events.completable import Completion
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.backoff import Backoff
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.share.outcomes import Outcomes
from tandem_kafka.request_managers.share.session import (
    Acknowledged,
    ShareSession,
    batches_of,
)
from tandem_kafka.runtime import Random
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    LockedRun,
)
from tandem_kafka.types import Node, TopicPartition
from tandem_kafka_testing.clock import SimClock
from tests.tier import bytecodes
from tests.unit.interrupts import Interrupter
from tests.unit.records.making import CONTROL, TRANSACTIONAL, Rec, batch

TP = TopicPartition("orders", 0)
LOCK_MS = 1_000
ACCEPT, RELEASE, GAP = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.GAP
RENEW = AcknowledgeType.RENEW
#: Offsets 0 to 2 and 4 to 5 have records.
DATA = (
    batch([Rec(), Rec(), Rec()], 0)
    + batch([Rec(key=b"\0\0\0\1", value=b"\0" * 6)], 3, flags=CONTROL | TRANSACTIONAL)
    + batch([Rec(), Rec()], 4)
)


class World:
    """A reader, and offsets that a broker has locked at the beginning: six, if not `last`."""

    def __init__(
        self, *, implicit: bool = True, most_bytes: int = 1 << 26, data: bytes = DATA, last: int = 5
    ) -> None:
        self.clock = SimClock()
        self.records = LockedRecords(self.clock)
        config = Config(fetch_buffer_max_bytes=most_bytes)
        unpacker = Unpacker(config, Deserializers(config))
        self.handing = Handing(self.records, unpacker, implicit=implicit)
        self.locked = LockedPartition(TP, uuid.uuid4(), 1, data, ((0, last, 1),), self.records)
        self.locked.requested_ms = self.locked.received_ms = self.clock.now_ms()
        self.locked.lock_ms = LOCK_MS
        self.records.add(self.locked)
        self.read: list[int] = []

    def poll(self, most: int) -> list[Given]:
        """Do what poll() does before it returns."""
        now_ms = self.clock.now_ms()
        self.handing.settle(now_ms)
        return self.handing.next(most, now_ms, waits=False)

    def got(self, found: list[Given]) -> None:
        """Return from poll()."""
        self.handing.given = found
        for chunk, start, stop in found:
            self.read += range(chunk.run.first + start, chunk.run.first + stop)

    def acknowledged(self) -> list[tuple[int, AcknowledgeType]]:
        return sorted(
            (offset, each.how)
            for each in self.records.take_acknowledgements()
            for offset in range(each.first, each.last + 1)
        )

    def pass_time(self, duration_ms: int) -> None:
        self.clock.advance_to(self.clock.now_ms() + duration_ms)


@pytest.mark.parametrize("most", [1, 2, 10])
@pytest.mark.parametrize("calls_before", [0, 1, 2])
@pytest.mark.parametrize("most_bytes", [1, 1 << 26])
def test_an_interrupted_poll_neither_accepts_nor_strands_a_record(
    most: int, calls_before: int, most_bytes: int
) -> None:
    for at in bytecodes():
        world = World(most_bytes=most_bytes)
        for _ in range(calls_before):
            world.got(world.poll(most))
        interrupter = Interrupter(at)
        try:
            world.got(interrupter.call(world.poll, most))
        except KeyboardInterrupt:
            early = {each for each, how in world.acknowledged() if how is ACCEPT}
            assert early <= set(world.read), "accepted, and never handed out"
        else:
            early = set()
        while found := world.poll(most):
            world.got(found)
        assert world.read == [0, 1, 2, 4, 5]
        later = [each for each, how in world.acknowledged() if how is ACCEPT]
        assert sorted([*early, *later]) == [0, 1, 2, 4, 5]
        if interrupter.frame is None:
            break
    assert at > 50


@pytest.mark.parametrize("how", [ACCEPT, RELEASE])
def test_an_interrupted_acknowledgement_is_made_once(how: AcknowledgeType) -> None:
    for at in bytecodes():
        world = World(implicit=False)
        world.got(world.poll(1))
        [(chunk, _, _)] = world.handing.given
        interrupter = Interrupter(at)
        with suppress(KeyboardInterrupt):
            interrupter.call(world.records.acknowledge, chunk.run, 0, how)
        with suppress(IllegalStateError):
            world.records.acknowledge(chunk.run, 0, how)
        made = [each for each in world.acknowledged() if each[1] is not GAP]
        assert made == [(0, how)]
        if interrupter.frame is None:
            break
    assert at > 50


def test_the_error_of_a_record_that_was_withdrawn_meanwhile_is_not_raised() -> None:
    """It was raised for the delivery that had ended, and again for the next one."""
    data = bytearray(batch([Rec(), Rec()], 0) + batch([Rec()], 2))
    data[-1] ^= 1
    for withdraws in (True, False):
        world = World(data=bytes(data), last=2)
        world.got(world.poll(1))
        world.got(world.poll(1))  # and the error is the next
        if withdraws:
            assert world.records.withdraw(world.locked) == [(2, 2)]
            assert world.poll(1) == []
        else:
            with pytest.raises(CorruptRecordError):
                world.poll(1)
        released = [] if withdraws else [(2, RELEASE)]
        assert world.acknowledged() == [(0, ACCEPT), (1, ACCEPT), *released]


def test_what_has_waited_too_long_is_not_handed_out() -> None:
    world = World()
    world.got(world.poll(1))
    assert world.locked.ahead == 5
    world.pass_time(LOCK_MS * 3 // 4)
    assert world.poll(1) == []
    assert world.acknowledged() == [(0, ACCEPT)]
    assert world.records.withdraw(world.locked) == [(1, 5)]
    assert world.locked.ahead == 0


@pytest.mark.parametrize("most", [1, 2, 10])
@pytest.mark.parametrize("calls_before", [0, 1, 2])
def test_each_record_is_handed_out_or_withdrawn(most: int, calls_before: int) -> None:
    """The network thread withdraws before each bytecode of poll()."""
    for at in bytecodes():
        world, withdrawn = World(), []

        def withdraw(world: World = world, withdrawn: list[int] = withdrawn) -> None:
            for first, last in world.records.withdraw(world.locked):
                withdrawn += range(first, last + 1)

        for _ in range(calls_before):
            world.got(world.poll(most))
        interrupter = Interrupter(at, withdraw)
        world.got(interrupter.call(world.poll, most))
        if interrupter.frame is None:
            withdraw()
        while found := world.poll(most):
            world.got(found)
        accepted = [offset for offset, how in world.acknowledged() if how is ACCEPT]
        assert accepted == world.read
        gap = {3} & {offset for offset in range(6) if offset not in withdrawn}
        assert sorted([*world.read, *gap, *withdrawn]) == list(range(6))
        if interrupter.frame is None:
            break
    assert at > 50


@pytest.mark.parametrize("kept", [0, 1])
def test_an_interrupted_release_of_all_accepts_nothing_that_was_not_handed_out(kept: int) -> None:
    for at in bytecodes():
        world = World()
        world.got(world.poll(2))
        if kept:  # by Ctrl-C
            world.poll(1)
            world.acknowledged()
        interrupter = Interrupter(at)
        with suppress(KeyboardInterrupt):
            interrupter.call(world.handing.release_all)
        made, read = world.acknowledged(), set(world.read)
        assert {offset for offset, how in made if how is ACCEPT} <= read
        released = {offset for offset, how in made if how is RELEASE}
        while found := world.poll(1):
            world.got(found)
        accepted = {offset for offset, how in world.acknowledged() if how is ACCEPT}
        assert not accepted & released
        if interrupter.frame is None:
            assert released == ({2} if kept else {0, 1})
            assert world.read == ([0, 1, 4, 5] if kept else [0, 1, 2, 4, 5])
            break
        assert accepted | released | {0, 1} == {0, 1, 2, 4, 5}
    assert at > 50


def test_what_an_interrupt_kept_is_given_back_after_a_withdrawal() -> None:
    world = World()
    world.poll(2)  # and Ctrl-C, before they are returned
    assert world.records.withdraw(world.locked) == [(2, 5)]
    assert world.poll(1) == []
    assert world.acknowledged() == [(0, RELEASE), (1, RELEASE)]


def test_nothing_is_released_after_its_lock() -> None:
    """The broker would discard the acceptance of a record whose lock was renewed, too."""
    world = World()
    world.got(world.poll(1))
    world.acknowledged()
    world.pass_time(LOCK_MS)
    assert world.poll(1) == []
    assert world.acknowledged() == [(0, ACCEPT)]


def test_a_record_that_is_never_acknowledged_is_forgotten_after_its_lock() -> None:
    world = World(implicit=False)
    world.got(world.poll(10))
    assert len(world.records.handed()) == 2
    [(chunk, _, _), _] = world.handing.given
    twice_ms = world.clock.now_ms() + 2 * LOCK_MS
    chunk.run.renewed[1] = (twice_ms, twice_ms)
    world.pass_time(LOCK_MS)
    world.records.forget_ended(world.clock.now_ms())
    assert world.records.handed() == (chunk.run,), "one lock was renewed"
    world.pass_time(LOCK_MS)
    world.records.forget_ended(world.clock.now_ms())
    assert world.records.handed() == ()


def test_each_attempt_after_the_lock_says_so() -> None:
    world = World(implicit=False)
    world.got(world.poll(10))
    [(chunk, _, _), _] = world.handing.given
    world.pass_time(LOCK_MS)
    for _ in range(2):
        with pytest.raises(RecordLockLostError):
            world.records.acknowledge(chunk.run, 0, ACCEPT)


def test_an_acknowledgement_is_told_though_the_lock_ended_before_it_was_taken() -> None:
    world = World(implicit=False)
    [(chunk, _, _), *_] = found = world.poll(1)
    world.got(found)
    world.records.acknowledge(chunk.run, 0, ACCEPT)
    world.pass_time(LOCK_MS)
    assert world.records.forget_ended(world.clock.now_ms()) == [chunk.run]
    [made] = world.records.take_acknowledgements()
    assert (made.first, made.last, made.how, made.run_is_over) == (0, 0, ACCEPT, True)


def test_what_is_accepted_after_its_lock_was_forgotten_is_told() -> None:
    world = World()
    world.got(world.poll(1))
    world.pass_time(LOCK_MS)
    assert len(world.records.forget_ended(world.clock.now_ms())) == 1
    assert world.poll(1) == []
    [made] = world.records.take_acknowledgements()
    assert (made.first, made.last, made.how, made.run_is_over) == (0, 0, ACCEPT, True)


def test_a_loop_needs_a_notice_only_for_the_first_of_the_records_that_it_accepts() -> None:
    notices: list[int] = []
    world = World()
    world.records.notice = lambda: notices.append(world.clock.now_ms())
    world.got(world.poll(1))
    world.got(world.poll(1))
    assert len(notices) == 1
    assert [each.last for each in world.records.take_acknowledgements()] == [0]
    assert world.records.gathered_ms is not None
    world.got(world.poll(1))
    assert len(notices) == 1, "the network thread looks"
    assert [each.last for each in world.records.take_acknowledgements()] == [1]
    assert world.records.take_acknowledgements() == []
    assert world.records.gathered_ms is None
    world.got(world.poll(1))
    assert len(notices) == 2


def test_an_acknowledgement_that_comes_while_the_lock_is_forgotten_fails() -> None:
    world = World(implicit=False)
    [(chunk, _, _), *_] = found = world.poll(1)
    world.got(found)
    chunk.run.forgotten = True  # the network thread, after the lock was looked at
    with pytest.raises(RecordLockLostError):
        world.records.acknowledge(chunk.run, 0, ACCEPT)


def test_an_acknowledgement_that_comes_while_others_are_taken_is_taken_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(implicit=False)
    [(chunk, _, _), *_] = found = world.poll(2)
    world.got(found)
    run, take_done = chunk.run, LockedRun.take_done
    world.records.acknowledge(run, 0, ACCEPT)

    def interrupted(self: LockedRun) -> Any:
        """As if another thread accepted the last record behind the last step of this."""
        taken = [*take_done(self)]
        if not run.is_finished:
            for offset in range(1, run.last + 1):
                world.records.acknowledge(run, offset, ACCEPT)
        return iter(taken)

    monkeypatch.setattr(LockedRun, "take_done", interrupted)
    first, second = world.acknowledged(), world.acknowledged()
    assert first == [(0, ACCEPT)]
    assert [offset for offset, _ in second] == [*range(1, run.last + 1)]


def test_what_was_accepted_by_going_on_is_not_acknowledged_again() -> None:
    world = World()
    [(chunk, _, _), *_] = found = world.poll(1)
    world.got(found)
    world.got(world.poll(1))
    with pytest.raises(IllegalStateError):
        world.records.acknowledge(chunk.run, 0, RELEASE)
    assert world.acknowledged() == [(0, ACCEPT)]


def session(world: World) -> ShareSession:
    made = ShareSession(
        Node(1, "localhost", 9092, None), RequestState(Backoff(100, 1_000, Random(1)))
    )
    made.locked.append(world.locked)
    return made


@pytest.mark.parametrize("alone", [True, False])
def test_what_was_locked_is_forgotten_when_its_last_renewal_is_over(*, alone: bool) -> None:
    """An acknowledgement would otherwise go with the first request of another session."""
    world = World(implicit=False)
    [(chunk, _, _), *_] = found = world.poll(2)
    world.got(found)
    made, first_ms = session(world), world.clock.now_ms() + LOCK_MS
    renewed = first_ms + LOCK_MS, first_ms + LOCK_MS
    if alone:
        chunk.run.renew_locks(0, 0, renewed)
    else:
        chunk.run.renew_all(renewed)
    made.forget_old_locks(first_ms)
    assert made.locked == [world.locked]
    world.records.acknowledge(chunk.run, 0, ACCEPT)
    made.forget_old_locks(first_ms + LOCK_MS)
    assert made.locked == []
    for each in (acknowledged := world.records.take_acknowledgements()):
        made.acknowledge(each, 0)
    assert made.drop_ended(first_ms + LOCK_MS) == acknowledged
    assert made.oldest is None


def test_of_records_accepted_together_those_that_were_renewed_are_sent() -> None:
    """All of them were delivered again, with the lock of one."""
    world = World()
    [(chunk, _, _), *_] = found = world.poll(3)
    world.got(found)
    made, end_ms = session(world), world.clock.now_ms() + LOCK_MS
    chunk.run.renew_locks(1, 1, (end_ms + LOCK_MS, end_ms + LOCK_MS))
    world.records.accept_up_to(chunk.run, 3)
    [each] = world.records.take_acknowledgements()
    made.acknowledge(each, 0)
    assert [(one.first, one.last) for one in made.drop_ended(end_ms)] == [(0, 0), (2, 2)]
    [waiting] = made.waiting.by_partition.values()
    assert waiting.ranges == [(1, 1, ACCEPT)]


def test_a_run_is_over_with_the_last_of_its_locks() -> None:
    world = World(implicit=False)
    [(chunk, _, _), *_] = world.poll(2)
    end_ms = world.clock.now_ms() + LOCK_MS
    for offset in (0, 1):
        end_ms += LOCK_MS
        chunk.run.renew_locks(offset, offset, (end_ms, end_ms))
    assert not chunk.run.is_over(end_ms - 1)
    assert chunk.run.is_over(end_ms)


@pytest.mark.parametrize("moved", [False, True])
def test_nothing_waits_in_a_session_that_has_ended_or_for_a_leader_that_has_moved(
    *, moved: bool
) -> None:
    """A renewal that was told to be lost was still waited for."""
    world = World(implicit=False)
    [(chunk, _, _), *_] = found = world.poll(1)
    world.got(found)
    made = session(world)
    for how in (RENEW, ACCEPT):
        world.records.acknowledge(chunk.run, 0, how)
        for each in world.records.take_acknowledgements():
            made.acknowledge(each, 0)
    made.renew(chunk.run, 0)
    assert made.oldest == 0
    ended = made.lose(world.locked.place) if moved else made.end()
    assert [[one.how for one in (*each.made, *each.asked)] for each in ended] == [[ACCEPT], [RENEW]]
    assert made.oldest is None
    assert not made.renewals.by_partition
    assert world.locked.lost
    assert made.locked == []


def test_a_commit_waits_for_what_was_acknowledged_before_it_and_for_nothing_else() -> None:
    world, committed = World(implicit=False), Completion[Any]()
    [(chunk, _, _), *_] = found = world.poll(3)
    world.got(found)
    made, outcomes = session(world), Outcomes(ConsumerMetrics(Config(), world.clock), world.records)
    made.acknowledge(Acknowledgement(world.locked, 0, 0, ACCEPT, chunk.run), outcomes.number)
    outcomes.commit(committed)
    outcomes.settle(made.oldest)
    assert not committed.done
    made.acknowledge(Acknowledgement(world.locked, 1, 1, ACCEPT, chunk.run), outcomes.number)
    outcomes.settle(made.oldest)
    assert not committed.done, "both go with the same request"
    made.acknowledgement({})
    made.acknowledge(Acknowledgement(world.locked, 2, 2, ACCEPT, chunk.run), outcomes.number)
    made.take_sent()
    outcomes.settle(made.oldest)
    assert committed.done


def test_a_recreated_topic_is_added_to_a_session() -> None:
    world = World()
    made = session(world)
    limits: dict[str, Any] = {}
    old, new = uuid.uuid4(), uuid.uuid4()
    made.fetch({}, {(old, 0)}, limits)
    request = made.fetch({}, {(new, 0)}, limits)
    assert [each.topic_id for each in request.topics] == [new]
    assert [each.topic_id for each in request.forgotten_topics_data] == [old]


def test_acknowledgements_of_a_recreated_topic_have_its_id() -> None:
    """Those of both topics went with the id of the one that came first."""
    world = World()
    made = session(world)
    again = LockedPartition(TP, uuid.uuid4(), 1, DATA, ((0, 5, 1),), world.records)
    for locked in (world.locked, again):
        made.acknowledge(Acknowledgement(locked, 0, 1, RELEASE, None), 0)
    request = made.acknowledgement({})
    assert [each.topic_id for each in request.topics] == [world.locked.place[0], again.place[0]]
    made.take_sent()
    made.acknowledge(Acknowledgement(again, 0, 1, RELEASE, None), 0)
    request = made.fetch({}, {world.locked.place}, {})
    assert [each.topic_id for each in request.forgotten_topics_data] == [again.place[0]]


def test_an_acknowledgement_does_not_keep_its_partition_in_a_session() -> None:
    """The broker would add it, and lock records of a partition that the member has lost."""
    world = World()
    made = session(world)
    limits: dict[str, Any] = {}
    made.fetch({}, {world.locked.place}, limits)
    made.fetch({}, set(), limits)  # the partition is forgotten
    made.acknowledge(Acknowledgement(world.locked, 0, 0, ACCEPT, None), 0)
    request = made.fetch({}, set(), limits)
    assert [each.partitions[0].partition_index for each in request.topics] == [TP.partition]
    assert [each.partitions for each in request.forgotten_topics_data] == [[TP.partition]]


def test_an_acknowledgement_whose_lock_has_ended_is_not_sent() -> None:
    world = World(implicit=False)
    world.got(world.poll(10))
    [(chunk, _, _), _] = world.handing.given
    made = session(world)
    given_back = Acknowledgement(world.locked, 2, 2, AcknowledgeType.RELEASE, None)
    for each in (Acknowledgement(world.locked, 0, 1, ACCEPT, chunk.run), given_back):
        made.acknowledge(each, 0)
    now_ms = world.clock.now_ms()
    assert made.drop_ended(now_ms + LOCK_MS - 1) == []
    assert made.waiting.by_partition
    assert [each.first for each in made.drop_ended(now_ms + LOCK_MS)] == [0, 2]
    assert not made.waiting.by_partition


def test_the_numbers_of_requests_begin_again_and_none_is_left_out() -> None:
    world = World()
    made = session(world)
    limits: dict[str, Any] = {}
    assert made.fetch({}, set(), limits).share_session_epoch == 0
    assert made.acknowledgement({}).share_session_epoch == 1
    made.unsent()
    assert made.acknowledgement({}).share_session_epoch == 1
    made.epoch = 2**31 - 1
    numbers = [made.fetch({}, set(), limits).share_session_epoch for _ in range(2)]
    assert numbers == [2**31 - 1, 1]


def test_what_is_locked_again_is_not_acknowledged_by_what_waits() -> None:
    """The broker took it for the new lock, whose record was handed out afterwards."""
    world = World(implicit=False)
    world.got(world.poll(6))
    made = session(world)
    for chunk, _, _ in world.handing.given:
        for offset in range(chunk.run.first, chunk.run.last + 1):
            world.records.acknowledge(chunk.run, offset, ACCEPT)
    for each in world.records.take_acknowledgements():
        made.acknowledge(each, 1)
    assert made.drop_locked_again((world.locked.place[0], 1), [(0, 5, 2)]) == []
    assert made.drop_locked_again(world.locked.place, [(6, 9, 2)]) == []
    dropped = made.drop_locked_again(world.locked.place, [(1, 1, 2), (5, 6, 2)])
    assert [(each.first, each.last) for each in dropped] == [(1, 1), (5, 5)]
    ranges = made.waiting.by_partition[world.locked.place].ranges
    assert ranges == [(0, 0, ACCEPT), (2, 2, ACCEPT), (4, 4, ACCEPT)]


def test_what_is_locked_again_is_not_renewed_by_its_old_lock() -> None:
    """The answer revived the old lock, and its acknowledgement went beside that of the new one."""
    world = World(implicit=False)
    world.got(world.poll(3))
    [(chunk, _, _)] = world.handing.given
    made, run = session(world), chunk.run
    for offset in range(3):
        world.records.acknowledge(run, offset, RENEW)
    for each in world.records.take_acknowledgements():
        made.acknowledge(each, 1)
    run.end_locks(1, 1)
    [renewals] = made.renewals.by_partition.values()
    assert [(first, last) for first, last, _ in renewals.renewals()] == [(0, 0), (2, 2)]
    run.renew_locks(0, 2, (5_000, 5_000))
    assert [run.lock_times(offset)[0] for offset in range(3)] == [5_000, -1, 5_000]


def test_renewals_of_the_same_records_do_not_overlap() -> None:
    """A broker refused an automatic one together with one that the application had asked for."""
    world = World(implicit=False)
    world.got(world.poll(3))
    [(chunk, _, _)] = world.handing.given
    made = session(world)
    made.renew(chunk.run, 1)
    for first, last in ((1, 1), (1, 1), (2, 2), (1, 2)):
        made.acknowledge(Acknowledgement(world.locked, first, last, RENEW, chunk.run), 1)
    [renewals] = made.renewals.by_partition.values()
    assert renewals.renewals() == [(0, 2, RENEW)]
    renewals.whole.clear()
    assert renewals.renewals() == [(1, 1, RENEW), (2, 2, RENEW)]
    chunk.run.forgotten = True  # its records may be locked again
    assert renewals.renewals() == []


def test_a_renewal_whose_lock_has_ended_is_not_sent() -> None:
    """The broker renewed another lock of the same record, and commit() told of no error."""
    world = World(implicit=False)
    world.got(world.poll(3))
    [(chunk, _, _)] = world.handing.given
    made, renewal = session(world), Acknowledgement(world.locked, 0, 0, RENEW, chunk.run)
    made.acknowledge(renewal, 1)
    now_ms = world.clock.now_ms()
    assert made.drop_ended(now_ms + LOCK_MS - 1) == []
    assert made.drop_ended(now_ms + LOCK_MS) == [renewal]
    assert made.renewal({}) is None


def test_a_broker_cannot_make_a_list_of_any_length() -> None:
    """It had locked more offsets than there are records, and got a type for each."""
    ranges = [(0, 0, ACCEPT), (1, 2**40, GAP), (2**40 + 1, 2**40 + 1, RELEASE)]
    assert batches_of(ranges) == [(first, last, [int(how)]) for first, last, how in ranges]
    assert batches_of([(0, 0, ACCEPT), (1, 2, GAP)]) == [(0, 2, [1, 0, 0])]


def test_a_record_that_is_locked_again_is_not_accepted_by_its_old_lock() -> None:
    """After a leader was elected again; the new lock's record waits to be handed out."""
    world = World(implicit=False)
    world.got(world.poll(10))
    [(chunk, _, _), _] = world.handing.given
    world.records.acknowledge(chunk.run, 0, ACCEPT)
    world.acknowledged()
    chunk.run.end_locks(0, 1)
    with pytest.raises(RecordLockLostError):
        world.records.acknowledge(chunk.run, 0, ACCEPT)
    with pytest.raises(RecordLockLostError):
        world.records.acknowledge(chunk.run, 1, ACCEPT)
    world.records.acknowledge(chunk.run, 2, ACCEPT)
    assert world.acknowledged() == [(2, ACCEPT)]


def test_earlier_deliveries_are_known_until_they_are_stored_as_the_last_ones() -> None:
    world = World(implicit=False)
    records, ranges = world.records, world.locked.ranges
    outcomes = Outcomes(ConsumerMetrics(Config(), world.clock), records)
    assert records.earlier(TP, ranges) == []
    world.got(world.poll(3))
    assert records.earlier(TP, [(3, 9, 1)]) == []
    [(chunk, _, _)] = world.handing.given
    for offset, how in ((0, ACCEPT), (1, RELEASE), (2, ACCEPT)):
        assert records.earlier(TP, ranges) == [(0, 2, 1)]
        records.acknowledge(chunk.run, offset, how)
    made = records.take_acknowledgements()
    assert not records.handed()
    assert records.earlier(TP, ranges) == [(0, 2, 1)], "there is no answer yet"
    outcomes.answered(Acknowledged(TP, made[:2]), None)
    assert records.earlier(TP, ranges) == [(1, 2, 1)]
    outcomes.answered(Acknowledged(TP, made[2:]), RecordLockLostError())
    assert records.earlier(TP, ranges) == [(1, 2, 1)]


def test_what_is_forgotten_after_its_lock_is_an_earlier_delivery() -> None:
    world = World(implicit=False)
    world.got(world.poll(2))
    world.pass_time(2 * LOCK_MS)
    world.records.forget_ended(world.clock.now_ms())
    assert not world.records.handed()
    assert world.records.earlier(TP, world.locked.ranges) == [(0, 1, 1)]


def test_what_is_claimed_while_its_run_is_forgotten_is_an_earlier_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(implicit=False)
    world.got(world.poll(1))
    [run] = world.records.handed()
    note = LockedRecords._note

    def noted(self: LockedRecords, *delivered: Any) -> None:
        """As if the reader, which found the lock before it was lost, came behind this step."""
        note(self, *delivered)
        if run.given < 3:
            assert self.hand_out(run, 3, world.clock.now_ms())

    monkeypatch.setattr(LockedRecords, "_note", noted)
    world.locked.lose()
    world.records.forget_ended(world.clock.now_ms())
    assert world.records.earlier(TP, world.locked.ranges) == [(0, 2, 1)]
