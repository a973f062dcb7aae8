"""Logs that lose records: old ones through retention, new ones through unclean elections."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tandem_kafka import ConsumerRecord, KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import LogTruncationError, OffsetOutOfRangeError
from tandem_kafka.state.partition import FetchState
from tandem_kafka_testing import Simulation
from tests.histories.ledger import SimulatedLedger
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)


def started(simulation: Simulation, batches: int = 4, **options: Any) -> KafkaConsumer:
    """A consumer of one partition with `batches` times five records."""
    create_topic(simulation, "orders", 1)
    for _ in range(batches):
        produce(simulation, TP, 5)
    consumer = simulation.consumer(**{"auto_offset_reset": "earliest", **options})
    consumer.assign([TP])
    return consumer


# --- retention ---------------------------------------------------------------------------------


def test_a_deleted_position_is_reset_by_time() -> None:
    with Simulation("retention by time") as simulation:
        create_topic(simulation, "orders", 1)
        for _ in range(4):
            produce(simulation, TP, 5)
            simulation.sleep(60_000)
        consumer = simulation.consumer(auto_offset_reset="by_duration:PT90S")
        consumer.assign([TP])
        consumer.seek(TP, 3)
        simulation.cluster.delete_records(TP, 5)
        ledger = SimulatedLedger(simulation, consumer, [TP])
        ledger.next[TP] = 15
        ledger.read_all()


def test_a_deleted_committed_offset_is_reset() -> None:
    with Simulation("retention commit") as simulation:
        first = started(simulation, group_id="readers", enable_auto_commit=False)
        assert first.poll(5_000, max_records=3).count == 3
        first.commit()
        first.close()
        simulation.cluster.delete_records(TP, 10)
        second = simulation.consumer(group_id="readers", auto_offset_reset="earliest")
        second.assign([TP])
        ledger = SimulatedLedger(simulation, second, [TP])
        ledger.next[TP] = 10
        ledger.read_all()


def test_retention_before_a_leader_change_is_not_truncation() -> None:
    """No record of the epoch remains: its end is the log start."""
    with Simulation("retention and leader", brokers=2) as simulation:
        consumer = started(simulation, auto_offset_reset="none")
        simulation.cluster.move_leader(TP, 2)
        produce(simulation, TP, 5)
        simulation.cluster.delete_records(TP, 22)
        consumer.seek(TP, OffsetAndMetadata(3, "", 0))
        with pytest.raises(OffsetOutOfRangeError) as raised:
            consumer.poll(60_000)
        assert not isinstance(raised.value, LogTruncationError)
        assert simulation.cluster.brokers[2].requests["OffsetForLeaderEpochRequest"] > 0


@pytest.mark.parametrize("seed", range(20))
def test_records_are_skipped_only_up_to_the_log_start(seed: int) -> None:
    with Simulation(f"retention {seed}", brokers=2) as simulation:
        random, cluster = simulation.random, simulation.cluster
        consumer = started(simulation, max_poll_records=random.choice([1, 3, 500]))
        expected, begins = 0, [0]
        for _ in range(60):
            log = cluster.at(TP).log
            match random.randrange(6):
                case 0 if log.start_offset < log.end_offset:
                    cluster.delete_records(TP, random.randint(log.start_offset, log.end_offset))
                    begins.append(log.start_offset)
                case 1:
                    cluster.move_leader(TP, random.choice([1, 2]))
                case 2:
                    simulation.network.cut(cluster.brokers[random.choice([1, 2])].address)
                case _:
                    produce(simulation, TP, random.randint(1, 4))
            for record in consumer.poll(random.choice([0, 30, 1_000])).get(TP, ()):
                assert record.value == b"orders-0-%d" % record.offset
                assert record.offset == expected or record.offset in begins, expected
                assert record.offset >= expected
                expected = record.offset + 1
        until_ms = simulation.clock.now_ms() + 60_000
        produce(simulation, TP, 1)
        while consumer.position(TP) < cluster.at(TP).log.end_offset:
            assert simulation.clock.now_ms() < until_ms, "stuck"
            consumer.poll(500)


# --- truncation --------------------------------------------------------------------------------


def test_a_commit_with_an_older_epoch_reveals_lost_records() -> None:
    """KIP-320: the offset is in range again when the next consumer starts."""
    with Simulation("truncated commit", brokers=2) as simulation:
        first = started(simulation, group_id="readers", enable_auto_commit=False)
        SimulatedLedger(simulation, first, [TP]).read_all()
        first.commit()
        first.close()
        simulation.cluster.move_leader(TP, 2, truncate_to=10)
        for _ in range(4):
            produce(simulation, TP, 5)
        second = simulation.consumer(group_id="readers", auto_offset_reset="earliest")
        second.assign([TP])
        ledger = SimulatedLedger(simulation, second, [TP])
        ledger.next[TP] = 10
        ledger.read_all()


@pytest.mark.parametrize("kind", ["poll", "loop"])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("sought", [False, True])
def test_what_was_read_ahead_of_lost_records_is_read_again(
    clean: bool, kind: str, sought: bool
) -> None:
    """The position is before the truncation, and what was fetched in advance is behind it."""
    with Simulation(f"read ahead {clean} {kind}", brokers=2) as simulation:
        consumer = started(simulation, max_poll_records=5)
        cluster, seen = simulation.cluster, []

        def read(count: int) -> None:
            until_ms = simulation.clock.now_ms() + 60_000
            while len(seen) < count:
                assert simulation.clock.now_ms() < until_ms, "stuck"
                if kind == "loop":
                    seen.append(next(consumer))
                else:
                    seen.extend(consumer.poll(500).get(TP, ()))

        read(5)
        simulation.sleep(1_000)
        cluster.move_leader(TP, 2)
        produce(simulation, TP, 5)
        simulation.sleep(2_000)
        cluster.move_leader(TP, 1, truncate_to=None if clean else 10)
        for _ in range(6):
            produce(simulation, TP, 5)
        simulation.sleep(10_000)  # the application works; the consumer learns of the election
        log = cluster.at(TP).log
        assert consumer.position(TP, timeout_ms=1_000) == 5  # without a poll() in between
        if sought:
            consumer.seek(TP, 3)
            assert consumer.position(TP, timeout_ms=1_000) == 3
            del seen[3:]
        read(log.end_offset)
        assert [each.offset for each in seen] == list(range(log.end_offset))
        epochs = {each.offset: each.leader_epoch for each in seen}
        assert epochs[9] == 0
        assert epochs[10] == (0 if clean else 2)
        assert consumer.position(TP) == log.end_offset


def test_partitions_that_wait_for_a_drop_together_are_committed_and_read_again() -> None:
    with Simulation("drop of two", brokers=2) as simulation:
        both = [TP, TopicPartition("orders", 1)]
        create_topic(simulation, "orders", 2)
        for tp in both * 4:
            produce(simulation, tp, 5)
        consumer = simulation.consumer(
            auto_offset_reset="earliest",
            group_id="g",
            enable_auto_commit=False,
            max_poll_records=5,
            metadata_max_age_ms=1_000,
        )
        consumer.assign(both)
        cluster, seen = simulation.cluster, list[ConsumerRecord]()

        def read(count: int) -> None:
            until_ms = simulation.clock.now_ms() + 60_000
            while len(seen) < count:
                assert simulation.clock.now_ms() < until_ms, "stuck"
                for batch in consumer.poll(500).values():
                    seen.extend(batch)

        consumer.poll(0)
        simulation.sleep(2_000)
        read(10)
        for tp in both:
            cluster.move_leader(tp, 3 - cluster.at(tp).leader, truncate_to=10)
        for tp in both * 4:
            produce(simulation, tp, 5)
        simulation.sleep(10_000)
        states = consumer._core.engine.subscription.assigned.values()
        assert {each.state for each in states} == {FetchState.AWAIT_DROP}
        consumer.commit()
        assert [consumer.committed(tp) for tp in both] == [5, 5]
        read(60)
        for tp in both:
            epochs = {each.offset: each.leader_epoch for each in seen if each.partition == tp[1]}
            assert epochs == {offset: int(offset >= 10) for offset in range(30)}


def test_a_doubt_about_the_topic_keeps_no_lost_records() -> None:
    """A broker that knew only the topic before answered once, and then the validation was over."""
    with Simulation("doubt about the topic", brokers=2) as simulation:
        consumer = started(simulation, max_poll_records=5, metadata_max_age_ms=1_000)
        cluster, seen = simulation.cluster, list[ConsumerRecord]()

        def read(count: int) -> None:
            until_ms = simulation.clock.now_ms() + 60_000
            while len(seen) < count:
                assert simulation.clock.now_ms() < until_ms, "stuck"
                seen.extend(consumer.poll(500).get(TP, ()))

        read(5)
        simulation.sleep(1_000)
        cluster.move_leader(TP, 2, truncate_to=10)
        for _ in range(6):
            produce(simulation, TP, 5)
        simulation.sleep(5_000)
        state = consumer._core.engine.subscription.assigned[TP]
        assert state.state is FetchState.AWAIT_DROP
        made = cluster.topics["orders"]
        present, made.topic_id = made.topic_id, UUID(int=1)
        while state.state is FetchState.AWAIT_DROP:
            simulation.sleep(1)
        made.topic_id = present
        simulation.sleep(2_000)
        end = cluster.at(TP).log.end_offset
        read(end)
        assert [each.offset for each in seen] == list(range(end))
        assert {each.leader_epoch for each in seen[10:]} == {1}


def test_an_election_of_a_lagging_follower_loses_its_missing_records() -> None:
    with Simulation("lagging leader", brokers=2) as simulation:
        consumer = started(simulation)
        simulation.cluster.fall_behind(TP, 2)
        produce(simulation, TP, 5)
        ledger = SimulatedLedger(simulation, consumer, [TP])
        ledger.read_all()
        assert consumer.position(TP) == 25
        simulation.cluster.move_leader(TP, 2)
        assert simulation.cluster.at(TP).log.end_offset == 20
        produce(simulation, TP, 3)
        ledger.next[TP] = 20
        ledger.read_all()


@pytest.mark.parametrize("seed", range(20))
def test_every_remaining_record_was_read_despite_losses(seed: int) -> None:
    """The last record read at each offset is the one in the log."""
    with Simulation(f"truncation {seed}", brokers=3) as simulation:
        random, cluster = simulation.random, simulation.cluster
        cluster.create_topic("orders")
        contents: list[bytes] = []
        consumer = simulation.consumer(
            auto_offset_reset="earliest",
            max_poll_records=random.choice([1, 3, 500]),
            reconnect_backoff_max_ms=1_000,
        )
        consumer.assign([TP])
        read: dict[int, bytes] = {}

        def take(records: list[ConsumerRecord]) -> None:
            read.update((record.offset, record.value) for record in records)

        for number in range(60):
            match random.randrange(6):
                case 0:
                    follower = random.choice([n for n in (1, 2, 3) if n != cluster.at(TP).leader])
                    cluster.fall_behind(TP, follower)
                case 1:
                    cluster.move_leader(TP, random.choice([1, 2, 3]))
                    del contents[cluster.at(TP).log.end_offset :]
                case 2:
                    simulation.network.cut(cluster.brokers[random.choice([1, 2, 3])].address)
                case _:
                    batch = [b"%d/%d" % (number, n) for n in range(random.randint(1, 4))]
                    cluster.produce(TP, *batch)
                    contents += batch
            take(consumer.poll(random.choice([0, 30, 1_000])).get(TP, []))
        until_ms = simulation.clock.now_ms() + 60_000
        cluster.produce(TP, b"last")
        contents.append(b"last")
        while [read.get(offset) for offset in range(len(contents))] != contents:
            assert simulation.clock.now_ms() < until_ms, "stuck"
            take(consumer.poll(500).get(TP, []))
        assert consumer.position(TP) == len(contents)
