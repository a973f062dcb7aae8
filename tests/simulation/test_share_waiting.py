"""What a member of a share group has acquired, an application gets: its deliveries are not used up.

Applications are slow at times, poll seldom, or take a few records and end.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from tandem_kafka import ShareConsumer, TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka.runtime import Random
from tandem_kafka.wire.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.log import (
    _CHECKED_FROM,
    _CHECKSUM,
    _CHECKSUM_AT,
    calc_crc32c,
)
from tandem_kafka_testing.cluster.releases import RELEASES
from tandem_kafka_testing.share.in_flight import RecordState
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.runner import silence
from tests.scenarios.share_ledger import Place, ShareLedger
from tests.scenarios.share_members import share_consumer
from tests.simulation.sharing import (
    LOCK_MS,
    TP,
    counted,
    metric,
    places,
    sharing,
    take,
    take_ahead,
    without_renewals,
)
from tests.tier import seeds

_RECORDS: Final = 150
#: A run ends after so many locks, though a member that polls seldom may have left records behind.
_MOST_LOCKS: Final = 20


class _Application:
    """A program that gets records, in turn with others: it never blocks for longer than 20 ms.

    Attributes:
        seen: How often each record was handed out to any program.
    """

    def __init__(self, simulation: Simulation, lock_ms: int, number: int, seen: Counter[Place]):
        self._simulation = simulation
        self._random = random = Random(f"{simulation.seed}/application {number}")
        self._seen = seen
        self._way = random.choice(["loop", "loop", "poll", "seldom", "job"])
        self._most = random.choice([1, 3, 500])
        self._options = {
            "renew": random.choice(["off", "auto"]),
            "max_poll_records": random.choice([1, 500]),
            "acknowledgement": "explicit" if self._way == "job" else "implicit",
        }
        self._slow_ms = random.randint(1, lock_ms) * random.choice([1, 1, 2])
        self._slow_one_in = random.choice([5, 20, 100])
        self._fast_ms = random.choice([0, 0, 1, 30])
        self._pause_ms = random.randint(100, 2 * lock_ms)
        self._left = random.randint(1, 4)
        self._busy_until_ms = 0
        self._consumer: ShareConsumer[Any, Any] | None = None

    def step(self) -> None:
        """Get records and begin to work on them, unless it works."""
        now_ms = self._simulation.clock.now_ms()
        if now_ms < self._busy_until_ms:
            return
        if self._consumer is None:
            self._consumer = share_consumer(
                self._simulation, "orders", group_id="g", consumer_timeout_ms=20, **self._options
            )
        records = list(self._got(self._consumer))
        for record in records:
            self._seen[TopicPartition(record.topic, record.partition), record.offset] += 1
        working_ms = sum(self._duration_ms() for _ in records)
        if self._way == "seldom":
            working_ms += self._pause_ms
        self._busy_until_ms = self._simulation.clock.now_ms() + working_ms
        if self._way == "job" and records:
            for record in records:
                record.accept()
            self._left -= len(records)
            if self._left <= 0:
                self.close()
                self._left = self._random.randint(1, 4)

    def _got(self, consumer: ShareConsumer[Any, Any]) -> Iterator[Any]:
        try:
            if self._way in ("loop", "job"):
                record = next(consumer, None)
                return iter([] if record is None else [record])
            batches = consumer.poll(0 if self._way == "seldom" else 20, self._most)
        except KafkaError:
            return iter(())
        return (record for batch in batches.values() for record in batch)

    def _duration_ms(self) -> int:
        if self._random.randrange(self._slow_one_in) == 0:
            return self._slow_ms
        return self._fast_ms

    def close(self) -> None:
        """End."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _run(seed: int) -> set[Place]:
    """Run a few programs; returns what is archived, and nobody has seen."""
    random = Random(f"waiting {seed}")
    brokers = random.choice([1, 1, 2, 3, 6, 12])
    with Simulation(f"waiting {seed}", brokers=brokers, trace_lines=2_000) as simulation:
        partitions = create_topic(simulation, "orders", random.choice([1, brokers, 2 * brokers]))
        filled = random.randint(1, len(partitions))
        for tp in partitions:
            simulation.cluster.move_leader(tp, tp.partition % brokers + 1)
        ledger = ShareLedger(simulation, "g", partitions)
        for tp in partitions[:filled]:
            produce(simulation, tp, _RECORDS // filled)
        lock_ms = random.choice([2_000, 30_000])
        simulation.cluster.configure_group(
            "g",
            share_auto_offset_reset="earliest",
            share_record_lock_duration_ms=lock_ms,
            share_renew_acknowledge_enable=random.random() < 0.6,
        )
        seen: Counter[Place] = Counter()
        programs = [
            _Application(simulation, lock_ms, number, seen)
            for number in range(random.randint(1, 3))
        ]
        until_ms = simulation.clock.now_ms() + _MOST_LOCKS * lock_ms
        while not ledger.all_done() and simulation.clock.now_ms() < until_ms:
            for each in programs:
                each.step()
            simulation.sleep(lock_ms // 2_000)
        for each in programs:
            each.close()
        archived = {place for place, state in ledger.final.items() if state is RecordState.ARCHIVED}
        return archived - seen.keys()


@pytest.mark.parametrize("seed", seeds(6, 200))
def test_no_record_is_archived_that_no_application_has_seen(seed: int) -> None:
    with silence():
        assert _run(seed) == set()


# --- what is acquired ---------------------------------------------------------------------------


def test_jobs_that_take_one_record_leave_no_others_behind() -> None:
    with sharing("jobs", brokers=3, partitions=3, count=4) as (_, start):
        found = []
        for _ in range(12):
            with start() as consumer:
                record = next(consumer)
                found.append((record.partition, *places([record])))
                record.accept()
        assert sorted(found) == [(each, (offset, 1)) for each in range(3) for offset in range(4)]


def test_a_call_gets_what_it_asks_for_and_nothing_waits() -> None:
    with sharing("asked", brokers=1, count=5) as (simulation, start):
        consumer = start()
        assert len(take(consumer, 1)) == 5
        produce(simulation, TP, 20)
        while not consumer.poll(1_000, max_records=2):
            pass
        simulation.sleep(1_000)
        assert metric(consumer, "records-fetched-total") == 7


def test_a_slow_record_keeps_none_from_others() -> None:
    with sharing("first slow", brokers=1) as (simulation, start):
        assert next(start("implicit")).offset == 0
        began_ms = simulation.clock.now_ms()
        assert places(take(start("implicit"), 2)) == [(1, 1), (2, 1)]
        assert simulation.clock.now_ms() - began_ms < 1_000


def test_after_a_slow_record_nothing_is_acquired_ahead_for_a_while() -> None:
    with sharing("careful", brokers=1, count=600) as (simulation, start):
        consumer = start("implicit", renew="auto")
        take_ahead(simulation, consumer)
        simulation.sleep(LOCK_MS // 3)
        records = consumer._parts.records
        waiting = records.waiting()
        for _ in range(waiting + 10):
            next(consumer)
        began_ms = simulation.clock.now_ms()
        while not records.waiting():
            next(consumer)
            simulation.sleep(50)
        assert LOCK_MS < simulation.clock.now_ms() - began_ms < 3 * LOCK_MS


def test_behind_records_that_were_delivered_before_nothing_is_acquired_ahead() -> None:
    with sharing("again", brokers=1, count=200) as (simulation, start):
        first = start()
        take(first, 200)
        first.close()
        consumer = start("implicit")
        for _ in range(150):
            assert next(consumer).delivery_count == 2
            simulation.sleep(1)
            assert not consumer._parts.records.waiting()
        assert metric(consumer, "records-fetched-total") == 150


# --- what waits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("renews", [True, False])
def test_a_program_that_polls_seldom_gets_records(*, renews: bool) -> None:
    """They were released between its calls until nobody got them."""
    with sharing("seldom", brokers=1, count=20) as (simulation, start):
        if not renews:
            without_renewals(simulation)
        consumer, found = start(), []
        for _ in range(6):
            for batch in consumer.poll(0).values():
                found += places(list(batch))
                for record in batch:
                    record.accept()
            simulation.sleep(3 * LOCK_MS if renews else LOCK_MS * 2 // 3)
        assert found == [(offset, 1) for offset in range(20)]


def test_who_comes_too_late_for_records_gets_others_only_while_it_waits() -> None:
    """Its deliveries were used up, and nobody got the records."""
    with sharing("too late", brokers=1, count=20) as (simulation, start):
        without_renewals(simulation)
        consumer = start()
        for _ in range(10):
            assert not consumer.poll(0)
            simulation.sleep(LOCK_MS)
        assert metric(consumer, "records-released-total") == 20
        found = next(iter(consumer.poll(1_000).values()))
        assert places(list(found)) == [(offset, 2) for offset in range(20)]


def test_a_program_that_always_comes_too_late_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It got nothing ever, and nothing said why."""
    with sharing("told", brokers=1, count=20) as (simulation, start):
        without_renewals(simulation)
        consumer = start()
        for _ in range(10):
            assert not consumer.poll(0)
            simulation.sleep(LOCK_MS * 4 // 5)
        [trouble] = consumer.health().troubles
        assert "waited too long for poll()" in trouble
        assert caplog.text.count("waited too long for poll()") == 1
        assert consumer.poll(1_000)
        assert consumer.health().troubles == ()


def test_who_came_too_late_once_gets_records_once_it_comes_often() -> None:
    with sharing("late once", brokers=1, count=20) as (simulation, start):
        without_renewals(simulation)
        consumer, found = start(), list[Any]()
        for _ in range(4):
            consumer.poll(0)
            simulation.sleep(LOCK_MS)
        assert metric(consumer, "records-released-total") == 20
        for _ in range(5):
            found += [each for batch in consumer.poll(0).values() for each in batch]
            simulation.sleep(200)
        assert len(found) == 20


def test_what_waits_behind_a_slow_record_is_renewed_within_bounds() -> None:
    """For two locks all of it, and then what the next call returns."""
    with sharing("bounds", brokers=1, count=400) as (simulation, start):
        consumer = start("implicit", renew="auto", max_poll_records=5)
        records = consumer._parts.records
        while records.waiting() < 8:
            last = next(consumer).offset
            simulation.sleep(1)
        waiting = records.waiting()
        simulation.sleep(LOCK_MS * 7 // 4)
        assert records.waiting() == waiting
        simulation.sleep(LOCK_MS)
        assert records.waiting() == 1
        assert metric(consumer, "records-released-total") == waiting - 1
        simulation.sleep(10 * LOCK_MS)
        assert places([next(consumer)]) == [(last + 1, 1)]


def test_what_was_renewed_comes_in_its_order_and_is_accepted_within_its_new_lock() -> None:
    """What was renewed last came first."""
    with sharing("new lock", brokers=1, count=100) as (simulation, start):
        consumer = start()
        records = consumer._parts.records
        while len(records.ahead()) < 2:
            next(consumer).accept()
            simulation.sleep(1)
        simulation.sleep(LOCK_MS * 5 // 4)
        given = [next(consumer) for _ in range(records.waiting())]
        assert given == sorted(given, key=lambda record: record.offset)
        simulation.sleep(LOCK_MS * 2 // 3)
        given[0].accept()
        assert consumer.commit() == {TP: None}


def test_brokers_that_cannot_renew_are_not_asked_again_and_nothing_is_raised() -> None:
    """The application has asked for no renewal."""
    with sharing("old brokers", brokers=1, count=100) as (simulation, start):
        release = RELEASES["4.3"]
        versions = {**release.versions, ShareAcknowledgeRequest.API_KEY: (1, 1)}
        for broker in simulation.cluster.brokers.values():
            broker.release = replace(release, versions=versions)
        consumer = start("implicit")
        last, waiting = take_ahead(simulation, consumer)
        simulation.sleep(LOCK_MS)
        assert metric(consumer, "records-released-total") == waiting
        found = [next(consumer) for _ in range(100 - last - 1)]
        assert {each.delivery_count for each in found} == {1, 2}


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


# --- many brokers -------------------------------------------------------------------------------


@pytest.mark.parametrize("handler_ms", [1_000, 5_000])
def test_a_slow_handler_with_many_brokers_gets_the_next_record_soon(handler_ms: int) -> None:
    """Each broker without records was waited for, one after the other, half a second each."""
    with sharing("twelve", brokers=12, partitions=12, count=0) as (simulation, start):
        produce(simulation, TP, 40)
        consumer = start("implicit", renew="auto", consumer_timeout_ms=20_000)
        for number in range(40):
            began_ms = simulation.clock.now_ms()
            assert next(consumer).delivery_count == 1
            assert not number or simulation.clock.now_ms() - began_ms < 300
            simulation.sleep(handler_ms)


def test_brokers_without_records_are_asked_in_turn_and_seldom() -> None:
    with sharing("idle", brokers=12, partitions=12, count=0) as (simulation, start):
        consumer = start("implicit")
        consumer.poll(10_000)
        before = counted(simulation, ShareFetchRequest)
        consumer.poll(10_000)
        assert counted(simulation, ShareFetchRequest) - before < 300
        produce(simulation, TP._replace(partition=7), 1)
        began_ms = simulation.clock.now_ms()
        assert consumer.poll(5_000)
        assert simulation.clock.now_ms() - began_ms < 1_000


@pytest.mark.parametrize("cause", ["short lock", "option"])
def test_empty_fetches_that_are_not_parked_do_not_follow_one_another(cause: str) -> None:
    """They came as fast as the network allows."""
    with sharing("not parked", brokers=1, count=1) as (simulation, start):
        simulation.network.conditions.latency_ms = (0, 0)
        if cause == "short lock":
            simulation.cluster.configure_group("g", share_record_lock_duration_ms=7)
        consumer = start(fetch_max_wait_ms=0 if cause == "option" else 500)
        next(consumer).accept()
        consumer.commit()
        consumer.poll(1_000)
        before = counted(simulation, ShareFetchRequest)
        consumer.poll(10_000)
        assert counted(simulation, ShareFetchRequest) - before < 1_200


def test_a_broker_that_does_not_answer_holds_up_no_others() -> None:
    with sharing("silent", brokers=3, partitions=3, count=0) as (simulation, start):
        consumer = start("implicit")
        consumer.poll(5_000)
        simulation.network.silent.add(simulation.cluster.brokers[1].address)
        consumer.poll(2_000)
        produce(simulation, TP._replace(partition=1), 1)
        assert consumer.poll(5_000)


def test_a_broker_that_is_down_does_not_make_the_others_busy() -> None:
    """It had answered nothing, so the others were asked as often as while records come."""
    with sharing("one is down", brokers=3, partitions=3, count=1) as (simulation, start):
        consumer = start("implicit")
        assert len(take(consumer, 3)) == 3
        simulation.cluster.stop(2, elect=False)
        consumer.poll(5_000)
        before = counted(simulation, ShareFetchRequest)
        consumer.poll(10_000)
        assert counted(simulation, ShareFetchRequest) - before < 150


@pytest.mark.parametrize("pause_ms", [LOCK_MS * 3 // 4 + 500, LOCK_MS * 9 // 10])
def test_what_has_waited_is_handed_out_with_the_time_of_a_lock(pause_ms: int) -> None:
    """It had half of one, so an application that polls seldom lost each lock, five times."""
    with sharing("half a lock", brokers=1, count=20) as (simulation, start):
        consumer = start("implicit")
        found: list[Any] = []
        for _ in range(24):
            found += [each for batch in consumer.poll(0).values() for each in batch]
            simulation.sleep(pause_ms)
        assert places(found) == [(offset, 1) for offset in range(20)]
        assert metric(consumer, "records-accepted-total") == 20


def widen(log: Any, size: int) -> None:
    """Let the last batch have had more offsets before it was compacted."""
    last = log._batches[-1]
    data = bytearray(last.data)
    struct.pack_into(">i", data, 23, size - 1)
    _CHECKSUM.pack_into(data, _CHECKSUM_AT, calc_crc32c(bytes(data[_CHECKED_FROM:])))
    log.end_offset = last.base_offset + size
    log._batches[-1] = replace(last, next_offset=log.end_offset, data=bytes(data))


def test_a_loop_over_a_compacted_log_does_not_ask_for_each_offset() -> None:
    with sharing("holes", brokers=1, count=0) as (simulation, start):
        log = simulation.cluster.at(TP).log
        for _ in range(20):
            produce(simulation, TP, 1)
            widen(log, 100)
        consumer = start("implicit")
        for _ in range(20):
            next(consumer)
        assert counted(simulation, ShareFetchRequest) < 200


def test_a_poll_with_a_short_timeout_asks_more_than_one_broker() -> None:
    with sharing("short timeouts", brokers=12, partitions=12, count=0) as (simulation, start):
        consumer = start("implicit")
        consumer.poll(2_000, max_records=1)
        produce(simulation, TopicPartition("orders", 7), 3)
        found = 0
        for _ in range(12):
            found += sum(map(len, consumer.poll(5, max_records=1).values()))
            simulation.sleep(1_000)
        assert found == 3


def test_a_short_poll_interval_does_not_end_the_membership_within_a_poll() -> None:
    with sharing("short interval", brokers=1, count=1) as (simulation, start):
        consumer = start("implicit", max_poll_interval_ms=400)
        consumer.poll(2_000)
        before = counted(simulation, ShareGroupHeartbeatRequest)
        consumer.poll(20_000)
        assert counted(simulation, ShareGroupHeartbeatRequest) - before < 10


def test_what_is_handed_out_before_a_renewal_is_sent_is_renewed_as_well() -> None:
    """It counted as renewed, and went to another member while its handler ran."""
    with sharing("toomuch", brokers=1, count=400) as (simulation, start):
        consumer = start("explicit", renew="auto", consumer_timeout_ms=60_000)
        records, slow = consumer._parts.records, list[Any]()
        while records.waiting() < 20 or len(slow) < 12:
            record = next(consumer)
            if len(slow) < 12 and record.offset > 60:
                slow.append(record)
            else:
                record.accept()
            simulation.sleep(1)
        due_ms = records.ahead()[0].requested_ms + LOCK_MS // 2
        simulation.sleep(due_ms - simulation.clock.now_ms() - 1)
        given = list[Any]()
        for record in slow[1:9]:
            record.accept()  # is in flight when the renewal is due
            given.append(next(consumer))
            simulation.sleep(1)
        other, end_ms = start(), simulation.clock.now_ms() + 4 * LOCK_MS
        while simulation.clock.now_ms() < end_ms:
            for batch in other.poll(500).values():
                for record in batch:
                    assert record.offset not in {each.offset for each in given}
                    record.accept()
