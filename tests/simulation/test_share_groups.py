"""Share consumers under single faults; `python -m tests.scenarios` mixes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka.errors import GroupIdNotFoundError

from tandem_kafka import ShareConsumer, TopicPartition
from tandem_kafka.errors import (
    ConcurrentModificationError,
    CorruptRecordError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RecordDeserializationError,
    RecordLockLostError,
    UnsupportedVersionError,
)
from tandem_kafka.request_managers.share.lock_manager import LockManager
from tandem_kafka.request_managers.share.session import ShareSession
from tandem_kafka.testing import Simulation
from tandem_kafka.testing.cluster.releases import RELEASES
from tandem_kafka.wire.messages import MetadataRequest, ShareAcknowledgeRequest
from tests.scenarios import SCENARIOS, run_seed
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.runner import silence
from tests.scenarios.share_members import share_consumer
from tests.tier import seeds

LOCK_MS = 15_000
TP = TopicPartition("orders", 0)
Start = Callable[..., ShareConsumer[Any, Any]]


@contextmanager
def sharing(
    seed: str, *, brokers: int = 2, partitions: int = 1, count: int = 3
) -> Iterator[tuple[Simulation, Start]]:
    """A share group without members, and records of each partition, which brokers lead in turn."""
    with Simulation(seed, brokers=brokers, trace_lines=2_000) as simulation:
        for tp in create_topic(simulation, "orders", partitions):
            simulation.cluster.move_leader(tp, tp.partition % brokers + 1)
            produce(simulation, tp, count)
        simulation.cluster.configure_group(
            "g", share_auto_offset_reset="earliest", share_record_lock_duration_ms=LOCK_MS
        )
        started: list[ShareConsumer[Any, Any]] = []

        def start(acknowledgement: str = "explicit", **options: Any) -> ShareConsumer[Any, Any]:
            options.setdefault("consumer_timeout_ms", 500)
            started.append(
                share_consumer(
                    simulation, "orders", acknowledgement=acknowledgement, group_id="g", **options
                )
            )
            return started[-1]

        try:
            yield simulation, start
        except BaseException:
            for consumer in started:
                consumer._core.closed = True
            raise
        for consumer in started:
            consumer.close()


def take(consumer: ShareConsumer[Any, Any], count: int, within_ms: int = 40_000) -> list[Any]:
    """Poll until there are so many records."""
    clock = consumer._core.clock
    deadline_ms, found = clock.now_ms() + within_ms, []
    while len(found) < count:
        assert clock.now_ms() < deadline_ms, f"{len(found)} of {count} records"
        found += [record for batch in consumer.poll(100).values() for record in batch]
    return found


def take_ahead(simulation: Simulation, consumer: ShareConsumer[Any, Any]) -> tuple[int, int]:
    """Iterate until records wait; returns the last offset, and how many offsets wait behind it."""
    records, offset = consumer._parts.records, -1
    while not records.waiting():
        offset = next(consumer).offset
        simulation.sleep(1)
    return offset, records.waiting()


def places(records: list[Any]) -> list[tuple[int, int]]:
    return sorted((record.offset, record.delivery_count) for record in records)


def counted(simulation: Simulation, api: Any) -> int:
    """Return how many requests of a kind the brokers have received."""
    brokers = simulation.cluster.brokers.values()
    return sum(broker.requests.get(api.__name__, 0) for broker in brokers)


def delete_group(simulation: Simulation) -> None:
    """Delete the share group; its members find out."""
    simulation.cluster.coordination.of("g").share.dissolve()


# --- faults -------------------------------------------------------------------------------------


def session_of(consumer: ShareConsumer[Any, Any]) -> ShareSession:
    """Return the session with the first broker."""
    managers = consumer._core.engine.loop._managers
    manager = next(each for each in managers if isinstance(each, LockManager))
    return manager._sessions[1]


def test_what_is_acknowledged_is_remembered_no_longer() -> None:
    with sharing("remembered", brokers=1) as (_, start):
        consumer = start()
        records = take(consumer, 3)
        records[0].accept()
        assert consumer.commit() == {TP: None}
        consumer.poll(1_000)
        assert session_of(consumer).locked
        for record in records[1:]:
            record.accept()
        assert consumer.commit() == {TP: None}
        consumer.poll(1_000)
        assert session_of(consumer).locked == []


def test_commit_never_confirms_what_is_delivered_again() -> None:
    with sharing("damaged answer") as (simulation, start):
        consumer = start()
        records = take(consumer, 3)
        simulation.network.alter_response = lambda frame: frame[:10]
        for record in records:
            record.accept()
        outcome = consumer.commit()[TP]
        simulation.network.alter_response = None
        again = consumer.poll(2 * LOCK_MS)
        assert outcome is not None or not again


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
        # The new leader knows nothing of deliveries that were not written.
        assert places(take(consumer, 2)) == [(1, 1), (2, 1)]
        with pytest.raises(RecordLockLostError):
            third.accept()


def test_an_acknowledgement_that_waits_when_the_leader_moves_is_told_to_be_lost() -> None:
    with sharing("waiting") as (simulation, start):
        consumer = start()
        first, *_ = take(consumer, 3)
        while not session_of(consumer).fetching:  # behind it, the acknowledgement waits
            consumer.poll(1)
        first.accept()
        simulation.cluster.move_leader(TP, 2)
        assert isinstance(consumer.commit()[TP], RecordLockLostError)


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
        assert places(take(consumer, 2)) == [(1, 1), (2, 1)]
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


def test_a_slow_member_releases_after_half_of_the_lock() -> None:
    with sharing("slow", brokers=1, partitions=2, count=1) as (simulation, start):
        slow = start("implicit")
        record = next(slow)
        began_ms = simulation.clock.now_ms()
        [other] = take(start("implicit"), 1)
        assert other.partition != record.partition
        assert simulation.clock.now_ms() - began_ms < LOCK_MS // 2 + 2_000


def test_what_waits_behind_a_slow_record_is_released_if_it_cannot_be_renewed() -> None:
    """They were unpacked already, and waited for the next call."""
    with sharing("behind", brokers=1, count=100) as (simulation, start):
        simulation.cluster.configure_group("g", share_renew_acknowledge_enable=False)
        slow = start("implicit")
        last, waiting = take_ahead(simulation, slow)
        began_ms = simulation.clock.now_ms()
        released = range(last + 1, last + 1 + waiting)
        others = take(start("implicit"), 100 - last - 1)
        assert {each.offset for each in others if each.delivery_count == 2} == set(released)
        assert simulation.clock.now_ms() - began_ms < LOCK_MS * 3 // 4 + 2_000
        assert next(slow, None) is None
        assert slow.commit() == {TP: None}, "the first one is accepted"


@pytest.mark.parametrize("other", [None, "payments"])
def test_the_end_of_a_subscription_releases_what_was_not_handed_out(other: str | None) -> None:
    """Unpacked records stayed locked until the next call."""
    with sharing("subscription", brokers=1, count=100) as (simulation, start):
        create_topic(simulation, "payments", 1)
        consumer = start("implicit")
        last, waiting = take_ahead(simulation, consumer)
        began_ms = simulation.clock.now_ms()
        if other is None:
            consumer.unsubscribe()
        else:
            consumer.subscribe([other])
        found = take(start("implicit"), 100 - last - 1)
        assert sum(each.delivery_count == 2 for each in found) == waiting
        assert simulation.clock.now_ms() - began_ms < 2_000
        assert consumer.poll(1_000) == {}


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


@pytest.mark.parametrize("iterates", [False, True])
def test_another_thread_cannot_poll_until_records_are_returned(
    monkeypatch: pytest.MonkeyPatch, *, iterates: bool
) -> None:
    """It got the same records."""
    with sharing("other thread", brokers=1) as (_, start):
        consumer, found = start("implicit"), list[Any]()
        assert next(consumer).offset == 0
        batch_of, record_of = consumer._batch_of, consumer._record_of

        def poll() -> None:
            try:
                found.append(next(consumer) if iterates else consumer.poll(0))
            except ConcurrentModificationError as error:
                found.append(error)

        def returning(given: Any) -> Any:
            monkeypatch.undo()
            thread = threading.Thread(target=poll)
            thread.start()
            thread.join()
            return record_of(given) if iterates else batch_of(given)

        monkeypatch.setattr(consumer, "_record_of" if iterates else "_batch_of", returning)
        mine = [next(consumer)] if iterates else consumer.poll(1_000)[TP]
        assert mine[0].offset == 1
        assert isinstance(found.pop(), ConcurrentModificationError)


def test_all_records_in_work_are_released() -> None:
    with sharing("release all") as (simulation, start):
        consumer = start()
        first, *_ = take(consumer, 3)
        first.accept()
        consumer.release_all()
        assert consumer.commit() == {TP: None}
        began_ms = simulation.clock.now_ms()
        assert places(take(start(), 2)) == [(1, 2), (2, 2)]
        assert simulation.clock.now_ms() - began_ms < 2_000
        with pytest.raises(IllegalStateError):
            first.accept()


def test_records_of_the_last_call_are_released_and_not_accepted() -> None:
    """And the consumer acquires nothing until it asks for a record."""
    with sharing("release last") as (simulation, start):
        consumer = start("implicit")
        for _ in range(2):
            next(consumer)
        consumer.release_all()
        simulation.sleep(2_000)
        other = start()
        assert places(take(other, 2)) == [(1, 2), (2, 1)]
        other.release_all()
        assert places([next(consumer) for _ in range(2)]) == [(1, 3), (2, 2)]


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


def test_a_consumer_acquires_what_it_soon_handles() -> None:
    with sharing("pace", brokers=1, count=600) as (simulation, start):
        consumer, most = start("implicit"), 0
        records = consumer._parts.records
        for number in range(200):
            next(consumer)
            simulation.sleep(10)
            if number > 60:  # the pace is known
                most = max(most, records.waiting())
        assert 0 < most <= 50


# --- renewals -------------------------------------------------------------------------------------


def test_a_handler_whose_locks_are_renewed_is_slower_than_the_poll_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with sharing("slower", brokers=1) as (simulation, start):
        consumer = start(max_poll_interval_ms=20_000)
        consumer.renew_locks(60_000)
        first, *_ = take(consumer, 3)
        simulation.sleep(50_000)
        assert first.is_locked
        assert "leaves the group" not in caplog.text
        first.accept()
        assert consumer.commit() == {TP: None}
        simulation.sleep(20_000)  # of the others for too long
        assert "leaves the group" in caplog.text


def test_commit_tells_that_a_lock_was_renewed() -> None:
    with sharing("renewed") as (_, start):
        consumer = start()
        record, *_ = take(consumer, 3)
        before = record.lock_deadline_ms
        record.renew()
        assert consumer.commit() == {TP: None}
        assert record.lock_deadline_ms > before
        assert consumer.commit() == {}


@pytest.mark.parametrize("polls", [True, False])
def test_what_took_longer_than_its_first_lock_is_accepted_while_the_consumer_polls(
    *, polls: bool
) -> None:
    """It was delivered again if the answer to a fetch came before the acceptance was sent."""
    with sharing("longer", brokers=1, count=1) as (simulation, start):
        consumer = start(renew="auto")
        [record] = take(consumer, 1)
        if polls:
            simulation.after(LOCK_MS + 5_000, record.accept)
            consumer.poll(LOCK_MS + 6_000)
        else:
            simulation.sleep(LOCK_MS + 5_000)
            record.accept()
        assert consumer.commit() == {TP: None}
        assert start().poll(2 * LOCK_MS) == {}


def test_records_of_a_poll_are_renewed_one_after_the_other() -> None:
    """The second was lost when the lock of the first had ended."""
    with sharing("one by one", brokers=1, count=2) as (simulation, start):
        consumer = start()
        first, second = take(consumer, 2)
        for record in (first, second):
            simulation.sleep(LOCK_MS // 2 - 1_000)
            record.renew()
            assert consumer.commit() == {TP: None}
        assert places(take(consumer, 1)) == [(0, 2)]
        with pytest.raises(RecordLockLostError):
            first.accept()
        second.accept()
        assert consumer.commit() == {TP: None}


def test_commit_tells_that_a_lock_was_not_renewed(caplog: pytest.LogCaptureFixture) -> None:
    with sharing("refused") as (simulation, start):
        simulation.cluster.configure_group("g", share_renew_acknowledge_enable=False)
        consumer = start()
        first, second, _ = take(consumer, 3)
        first.renew()
        second.accept()
        assert isinstance(consumer.commit()[TP], KafkaError)
        assert caplog.text.count("locks of orders-0 were not renewed") == 1
        first.accept()
        assert consumer.commit() == {TP: None}


def test_commit_tells_that_the_broker_does_not_know_the_lock_to_renew() -> None:
    with sharing("unknown lock") as (simulation, start):
        consumer = start()
        record, *_ = take(consumer, 3)
        simulation.cluster.brokers[1].share_sessions.clear()
        record.renew()
        assert isinstance(consumer.commit()[TP], KafkaError)


def test_commit_tells_that_a_record_was_locked_again_before_it_was_renewed() -> None:
    """It said nothing of it."""
    with sharing("renewal waits", brokers=1) as (simulation, start):
        consumer = start()
        first, *_ = take(consumer, 3)
        while not session_of(consumer).fetching:  # behind it, the renewal waits
            consumer.poll(1)
        first.renew()
        simulation.cluster.move_leader(TP, 1)
        assert isinstance(consumer.commit()[TP], RecordLockLostError)
        assert places(take(consumer, 3)) == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("stops", [True, False])
def test_commit_tells_that_a_lock_ended_before_it_was_renewed(stops: bool) -> None:
    with sharing("ended") as (simulation, start):
        consumer = start()
        record, *_ = take(consumer, 3)
        record.renew()
        if stops:
            simulation.cluster.stop(1)
        else:
            simulation.cluster.move_leader(TP, 2)
        assert isinstance(consumer.commit()[TP], KafkaError)
        metrics = consumer.metrics()["consumer-share-fetch-manager-metrics"]
        assert metrics["locks-lost-total"] <= 3


def test_commit_says_nothing_of_automatic_renewals(caplog: pytest.LogCaptureFixture) -> None:
    with sharing("automatic") as (simulation, start):
        simulation.cluster.configure_group("g", share_renew_acknowledge_enable=False)
        consumer = start(renew="auto")
        take(consumer, 3)
        simulation.sleep(LOCK_MS * 2 // 3)
        assert "locks of orders-0 were not renewed" in caplog.text
        assert consumer.commit() == {}


def test_commit_tells_that_brokers_cannot_renew() -> None:
    with sharing("old") as (simulation, start):
        release = RELEASES["4.3"]
        versions = {**release.versions, ShareAcknowledgeRequest.API_KEY: (1, 1)}
        for broker in simulation.cluster.brokers.values():
            broker.release = replace(release, versions=versions)
        consumer = start()
        record, *_ = take(consumer, 3)
        record.renew()
        assert isinstance(consumer.commit()[TP], UnsupportedVersionError)


# --- defects that scenarios have found ------------------------------------------------------------


def test_a_slow_handler_gets_records_of_several_brokers() -> None:
    """Its limit of one record was divided by the brokers, and nothing was fetched any more."""
    with sharing("brokers", brokers=3, partitions=3, count=4) as (simulation, start):
        consumer = start("implicit", max_poll_records=1)
        found = []
        while len(found) < 12:
            found += take(consumer, 1)
            simulation.sleep(1_000)
        assert len({(record.partition, record.offset) for record in found}) == 12


def test_records_are_not_used_up_while_a_handler_takes_minutes() -> None:
    """A record that waits is released, and counts as delivered: five times, and it is gone."""
    with sharing("minutes", brokers=2, partitions=2, count=4) as (simulation, start):
        consumer, found = start("implicit", renew="auto"), []
        for _ in range(20):
            if (record := next(consumer, None)) is not None:
                found.append((record.partition, record.offset))
            simulation.sleep(90_000)
        assert sorted(found) == [(number, offset) for number in (0, 1) for offset in range(4)]


def test_a_commit_after_one_that_timed_out_tells_the_outcome() -> None:
    with sharing("timeout") as (simulation, start):
        consumer = start()
        for record in take(consumer, 3):
            record.accept()
        with pytest.raises(KafkaTimeoutError):
            consumer.commit(timeout_ms=0)
        simulation.sleep(1_000)
        assert consumer.commit() == {TP: None}


def test_a_commit_after_one_that_was_interrupted_tells_the_outcome() -> None:
    """It said nothing of records that are delivered again."""
    with sharing("interrupted commit") as (simulation, start):
        consumer = start()
        core = consumer._core
        wait = core.wait

        async def interrupted(*args: Any, **options: Any) -> None:
            core.wait = wait  # type: ignore[method-assign]
            await wait(*args, **options)
            raise KeyboardInterrupt

        for damaged in (True, False):
            take(consumer, 1)[0].accept()
            simulation.network.alter_response = (lambda frame: frame[:10]) if damaged else None
            core.wait = interrupted  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                consumer.commit()
            simulation.network.alter_response = None
            found = consumer.commit()
            assert list(found) == [TP]
            assert (found[TP] is not None) == damaged
            assert consumer.commit() == {}


def test_commit_accepts_all_but_the_last_record() -> None:
    with sharing("flush") as (_, start):
        consumer = start("implicit", max_poll_records=1)
        for _ in range(3):  # within the time in which acceptances are collected
            take(consumer, 1)
        assert consumer.commit() == {TP: None}
        consumer.__exit__(ValueError, ValueError(), None)
        assert places(take(start(), 1)) == [(2, 2)]


def test_close_accepts_the_last_records_wherever_their_run_begins() -> None:
    """Of records with two delivery counts, only those with the first one were accepted."""
    with sharing("two runs", brokers=1) as (simulation, start):
        first = start()
        again, *others = take(first, 3)
        again.release()
        for record in others:
            record.accept()
        first.close()
        produce(simulation, TP, 2)
        consumer = start("implicit", max_poll_records=2)
        assert places(take(consumer, 2)) == [(0, 2), (3, 1)]
        consumer.close()
        assert places(take(start(), 1)) == [(4, 1)]


def test_unsubscribe_leaves_the_outcome_to_commit() -> None:
    with sharing("unsubscribe") as (_, start):
        consumer = start()
        for record in take(consumer, 3):
            record.accept()
        consumer.unsubscribe()
        assert consumer.commit() == {TP: None}


def test_nothing_is_released_after_its_lock() -> None:
    """The member had got the same records with a new lock, which the release ended."""
    with sharing("late release") as (simulation, start):
        consumer = start("implicit", max_poll_records=1)
        assert next(consumer).offset == 0
        simulation.sleep(LOCK_MS + 1_000)
        found = take(consumer, 1) + take(consumer, 1)
        assert len(found) == 2
        simulation.sleep(500)
        share = next(iter(simulation.cluster.brokers[1].share_partitions.values())).share
        assert list(share._acquired()), "the records in work are locked"


def test_a_partition_without_a_leader_causes_no_flood_of_requests() -> None:
    with sharing("leaderless", partitions=2) as (simulation, start):
        consumer = start()
        take(consumer, 3)
        simulation.cluster.stop(2, elect=False)
        consumer.poll(2_000)
        before = counted(simulation, MetadataRequest)
        consumer.poll(10_000)
        assert counted(simulation, MetadataRequest) - before < 60


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


# --- scenarios ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "kind", [each.name for each in SCENARIOS.values() if each.shares and not each.soak]
)
def test_each_record_is_done_or_delivered_often_enough(kind: str, seed: int) -> None:
    with silence():
        outcome = run_seed(seed, kind)
    assert not outcome.error
    assert outcome.events > 50


@pytest.mark.parametrize("seed", seeds(1, 12))
@pytest.mark.parametrize("kind", [each.name for each in SCENARIOS.values() if each.soak])
def test_records_are_handled_once_by_slow_applications_and_never_lost_unseen(
    kind: str, seed: int
) -> None:
    with silence():
        outcome = run_seed(seed, kind)
    assert not outcome.error
    assert outcome.account["records"] > 50
