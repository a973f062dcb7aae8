"""Share consumers while leaders, brokers, coordinators, groups and topics change."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
from kafka.errors import GroupIdNotFoundError

from tandem_kafka.errors import (
    ConcurrentModificationError,
    CorruptRecordError,
    IllegalStateError,
    RecordDeserializationError,
    RecordLockLostError,
)
from tandem_kafka.wire.messages import MetadataRequest, ShareGroupHeartbeatRequest
from tests.scenarios.numbered_records import produce
from tests.simulation.sharing import (
    LOCK_MS,
    TP,
    counted,
    delete_group,
    places,
    session_of,
    sharing,
    take,
)


def test_the_leader_moves_with_records_in_work() -> None:
    with sharing("leader moves") as (simulation, start):
        consumer = start()
        first, second, third = take(consumer, 3)
        first.accept()
        assert consumer.commit() == {TP: None}
        simulation.cluster.move_leader(TP, 2)
        simulation.sleep(1_000)
        second.accept()
        error = consumer.commit()[TP]
        assert isinstance(error, RecordLockLostError)
        assert "the leader of the partition has moved" in str(error)
        # The new leader knows nothing of deliveries that were not written; this consumer does.
        assert places(take(consumer, 2)) == [(1, 2), (2, 2)]
        with pytest.raises(RecordLockLostError):
            third.accept()


def test_a_leader_is_elected_again_while_a_part_of_its_records_waits() -> None:
    """They were handed out with their ended locks, and the broker refused all acceptances."""
    with sharing("elected again", brokers=1) as (simulation, start):
        consumer = start()
        for record in take(consumer, 3):
            record.release()
        consumer.commit()
        produce(simulation, TP, 3)
        while not (first := consumer.poll(100, max_records=3)):
            pass
        assert places(list(first[TP])) == [(0, 2), (1, 2), (2, 2)]
        simulation.cluster.move_leader(TP, 1)
        simulation.sleep(200)
        again = take(consumer, 6)
        assert [record.offset for record in again] == list(range(6))
        for record in again:
            record.accept()
        assert consumer.commit() == {TP: None}
        assert consumer.poll(2 * LOCK_MS) == {}


def test_what_comes_again_after_its_release_ends_no_other_lock() -> None:
    """The acceptances of a slow handler were dropped, and its records delivered again."""
    with sharing("released apart", brokers=1, count=6) as (simulation, start):
        consumer, records = start(), list[Any]()
        while len(records) < 3:
            for batch in consumer.poll(100, max_records=3 - len(records)).values():
                records += batch
        simulation.sleep(LOCK_MS // 2 + 100)  # the others are released
        while not session_of(consumer).fetching:  # and come with the next answer
            consumer.poll(1, max_records=1)
        for record in records:
            record.accept()
        assert consumer.commit() == {TP: None}


@pytest.mark.parametrize("idle", [False, True])
def test_a_record_is_not_locked_once_its_connection_is_closed(*, idle: bool) -> None:
    """It was said to be locked until the next request."""
    times = {"connections_max_idle_ms": 5_000, "request_timeout_ms": 4_000} if idle else {}
    with sharing("closed", brokers=1) as (simulation, start):
        consumer = start(**times)
        record, *_ = take(consumer, 3)
        consumer._parts.records.resting = True
        simulation.sleep(2_000)  # until no fetch is in flight
        assert record.is_locked
        if idle:
            simulation.sleep(5_000)
        else:
            simulation.cluster.stop(1)
            simulation.sleep(100)
        assert not record.is_locked
        with pytest.raises(RecordLockLostError):
            record.accept()


def test_a_broker_restarts() -> None:
    with sharing("restart", brokers=1) as (simulation, start):
        consumer = start()
        first, second, _ = take(consumer, 3)
        first.accept()
        assert consumer.commit() == {TP: None}
        assert second.is_locked
        assert second.lock_deadline_ms > simulation.clock.wall_ms()
        simulation.cluster.stop(1)
        simulation.sleep(3_000)
        simulation.cluster.start(1)
        assert places(take(consumer, 2)) == [(1, 2), (2, 2)]
        assert not second.is_locked
        assert second.lock_deadline_ms < simulation.clock.wall_ms()


def test_a_session_is_lost() -> None:
    with sharing("session") as (simulation, start):
        consumer = start()
        [*records] = take(consumer, 3)
        simulation.cluster.brokers[1].share_sessions.clear()
        records[0].accept()
        assert isinstance(consumer.commit()[TP], Exception)
        assert places(take(consumer, 3)) == [(0, 2), (1, 2), (2, 2)]


def test_the_records_of_a_crashed_member_come_to_another_after_their_locks() -> None:
    with sharing("crash") as (simulation, start):
        member, other = start(), start()
        got = take(member, 3)
        began_ms = simulation.clock.now_ms()
        driver: Any = member._core.driver
        driver.parked.stalled_until_ms = 2**60
        member._core.closed = True
        simulation.network.freeze(driver.parked.transport)
        assert places(take(other, 3)) == [(record.offset, 2) for record in got]
        assert LOCK_MS - 1_000 < simulation.clock.now_ms() - began_ms < LOCK_MS + 2_000


def test_the_coordinator_moves() -> None:
    with sharing("coordinator") as (simulation, start):
        consumer = start("implicit")
        assert len(take(consumer, 3)) == 3
        simulation.cluster.move_coordinator("g", 2)
        produce(simulation, TP, 2)
        assert [record.offset for record in take(consumer, 2)] == [3, 4]
        consumer.poll(0)
        assert consumer.commit() == {TP: None}


def test_a_recreated_topic() -> None:
    with sharing("recreated") as (simulation, start):
        consumer = start(metadata_max_age_ms=1_000)
        old = take(consumer, 3)
        simulation.cluster.recreate_topic("orders")
        produce(simulation, TP, 2)
        new = take(consumer, 2)
        for record in old:
            with suppress(RecordLockLostError):
                record.accept()
        for record in new:
            record.accept()
        consumer.commit()
        assert consumer.poll(2 * LOCK_MS) == {}


@pytest.mark.parametrize("wiped", [False, True])
def test_a_group_that_was_deleted_is_joined_again(wiped: bool) -> None:
    """Each poll() raised that the group "exists and is no share group"."""
    with sharing("deleted") as (simulation, start):
        consumer = start(metadata_max_age_ms=1_000)
        for record in take(consumer, 3):
            record.accept()
        consumer.commit()
        delete_group(simulation)
        if wiped:
            simulation.cluster.recreate_topic("orders")
        produce(simulation, TP, 2)
        begin = 0 if wiped else 3
        assert places(take(consumer, 2)) == [(begin, 1), (begin + 1, 1)]


def test_a_deleted_group_whose_name_another_kind_of_group_has() -> None:
    with sharing("taken") as (simulation, start):
        consumer = start()
        take(consumer, 3)
        delete_group(simulation)
        other = simulation.consumer("orders", group_id="g", group_protocol="consumer")
        while not other.assignment():
            other.poll(100)
        for _ in range(2):
            with pytest.raises(GroupIdNotFoundError, match="exists and is no share group"):
                consumer.poll(10_000)
        other.close()


def test_a_broker_changes_its_address() -> None:
    with sharing("address") as (simulation, start):
        consumer = start(metadata_max_age_ms=1_000)
        for record in take(consumer, 3):
            record.accept()
        assert consumer.commit() == {TP: None}
        simulation.cluster.stop(1, elect=False)
        simulation.cluster.brokers[1].port += 1_000
        simulation.cluster.start(1)
        produce(simulation, TP, 2)
        assert places(take(consumer, 2)) == [(3, 1), (4, 1)]


def test_close_does_not_wait_for_a_broker_that_is_down() -> None:
    with sharing("down", brokers=1) as (simulation, start):
        consumer = start("implicit")
        take(consumer, 3)
        simulation.cluster.stop(1)
        began_ms = simulation.clock.now_ms()
        consumer.close()
        assert simulation.clock.now_ms() - began_ms < 5_000


def test_a_broker_without_room_for_a_session_is_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with sharing("no room", brokers=1) as (simulation, start):
        simulation.cluster.brokers[1].share_sessions.limit = 1
        first, second = start(), start()
        assert len(take(first, 3)) == 3
        assert not second.poll(5_000)
        assert caplog.text.count("broker 1 has no room for another share session") == 1
        first.close()
        assert places(take(second, 3)) == [(0, 2), (1, 2), (2, 2)]


def test_a_partition_without_a_leader_causes_no_flood_of_requests() -> None:
    with sharing("leaderless", partitions=2) as (simulation, start):
        consumer = start()
        take(consumer, 3)
        simulation.cluster.stop(2, elect=False)
        consumer.poll(2_000)
        before = counted(simulation, MetadataRequest)
        consumer.poll(10_000)
        assert counted(simulation, MetadataRequest) - before < 60


def test_a_member_without_partitions_asks_for_them_less_and_less_often() -> None:
    with sharing("no partitions") as (simulation, start):
        consumer = start()
        consumer.subscribe(["missing"])
        consumer.poll(20_000)
        before = counted(simulation, ShareGroupHeartbeatRequest)
        consumer.poll(60_000)
        assert counted(simulation, ShareGroupHeartbeatRequest) - before < 20


@pytest.mark.parametrize("times", [1, 2])
def test_a_batch_that_is_damaged_once_is_not_lost(times: int) -> None:
    """Perhaps on its way: it is rejected if another delivery is damaged as well."""
    value = b"x" * 32
    with sharing("damaged batch", count=0) as (simulation, start):
        simulation.cluster.produce(TP, value, value)
        left = times

        def damage(frame: bytes) -> bytes:
            nonlocal left
            at = frame.find(value)
            if at < 0 or not left:
                return frame
            left -= 1
            return frame[:at] + b"?" + frame[at + 1 :]

        simulation.network.alter_response = damage
        consumer = start("implicit")
        for what in ("released and delivered again", "rejected")[:times]:
            with pytest.raises(CorruptRecordError, match=rf"offset 0: .*; it is {what}"):
                take(consumer, 1)
        found = consumer.poll(2 * LOCK_MS)
        assert sum(map(len, found.values())) == (2 if times == 1 else 0)


# --- calls at the same time -----------------------------------------------------------------------


def test_a_deserializer_cannot_poll() -> None:
    """It got the records that the outer call had begun with, and both handed them out."""
    with sharing("nested", brokers=1) as (_, start):
        calls: list[bytes] = []

        def deserialize(value: bytes) -> bytes:
            calls.append(value)
            if len(calls) == 1:
                consumer.poll(0)
            return value

        consumer = start(value_deserializer=deserialize)
        with pytest.raises(RecordDeserializationError) as raised:
            take(consumer, 1)
        assert isinstance(raised.value.__cause__, IllegalStateError)
        assert "inside of another poll()" in str(raised.value.__cause__)
        assert "; it is released and delivered again" in str(raised.value)
        assert places(take(consumer, 3)) == [(0, 2), (1, 1), (2, 1)]


def test_an_unclosed_loop_ends_its_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    with sharing("unclosed", brokers=1, count=400) as (simulation, start):
        consumer = start("implicit")
        while consumer._parts.records.waiting() < 8:
            next(consumer)
            simulation.sleep(1)
        next(consumer)
        assert consumer._parts.poller.fed() is not None
        monkeypatch.setattr("tandem_kafka.consumer.share.consumer.stop_unclosed", lambda *_: True)
        consumer.__del__()
        assert consumer._parts.poller.fed() is None


@pytest.mark.parametrize("iterates", [False, True])
def test_another_thread_cannot_poll_until_records_are_returned(
    monkeypatch: pytest.MonkeyPatch, *, iterates: bool
) -> None:
    """It got the same records."""
    with sharing("other thread", brokers=1) as (_, start):
        consumer, found = start("implicit"), list[Any]()
        assert next(consumer).offset == 0
        batch_of, iterated = consumer._batch_of, consumer._iterated

        def poll() -> None:
            try:
                found.append(next(consumer) if iterates else consumer.poll(0))
            except ConcurrentModificationError as error:
                found.append(error)

        def returning(*given: Any) -> Any:
            monkeypatch.undo()
            thread = threading.Thread(target=poll)
            thread.start()
            thread.join()
            return iterated(*given) if iterates else batch_of(*given)

        monkeypatch.setattr(consumer, "_iterated" if iterates else "_batch_of", returning)
        mine = [next(consumer)] if iterates else consumer.poll(1_000)[TP]
        assert mine[0].offset == 1
        assert isinstance(found.pop(), ConcurrentModificationError)
