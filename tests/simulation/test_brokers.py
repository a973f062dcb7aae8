"""Brokers that restart, coordinators and leaders that move, records that are lost."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError, LogTruncationError
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.coordinator.members import MemberState
from tests.histories.ledger import SimulatedLedger, reading
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.readers import Listener, Readers, filled
from tests.tier import seeds

TP = TopicPartition("orders", 0)
BOTH = pytest.mark.parametrize("protocol", [{}, {"group_protocol": "consumer"}])


def trouble(simulation: Simulation, tps: list[TopicPartition]) -> None:
    """Cause one fault of a data centre."""
    random, cluster = simulation.random, simulation.cluster
    node_id = random.choice(list(cluster.brokers))
    up = [broker.node_id for broker in cluster.brokers.values() if broker.up]
    match random.randrange(6):
        case 0:
            if len(up) > 1 and node_id in up:
                cluster.stop(node_id, elect=random.random() < 0.7)
        case 1:
            cluster.start(node_id)
        case 2:
            cluster.move_coordinator("readers", random.choice(up))
        case 3:
            cluster.move_leader(random.choice(tps), random.choice(up))
        case 4:
            simulation.network.cut(cluster.brokers[node_id].address)
        case _:
            produce(simulation, random.choice(tps), 5)


@pytest.mark.behaviour(171)
@pytest.mark.parametrize("seed", seeds(15, 60))
def test_order_and_completeness_survive_broker_restarts(seed: int) -> None:
    with Simulation(f"brokers {seed}", brokers=3) as simulation:
        tps = create_topic(simulation, "orders", 3)
        consumer = simulation.consumer(
            group_id="readers", auto_offset_reset="earliest", reconnect_backoff_max_ms=1_000
        )
        consumer.assign(tps)
        ledger = SimulatedLedger(simulation, consumer, tps)
        for _ in range(25):
            trouble(simulation, tps)
            ledger.poll(simulation.random.choice([0, 100, 2_000]))
            if simulation.random.random() < 0.3:
                ledger.commit(1_000)
        for node_id in simulation.cluster.brokers:
            simulation.cluster.start(node_id)
        ledger.read_all()
        assert ledger.commit(30_000)


@pytest.mark.behaviour(150)
def test_without_a_policy_truncation_is_raised_until_a_seek() -> None:
    with Simulation(brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        for _ in range(4):
            produce(simulation, TP, 5)
        consumer = simulation.consumer(auto_offset_reset="none")
        consumer.assign([TP])
        consumer.seek(TP, 0)
        ledger = SimulatedLedger(simulation, consumer, [TP])
        ledger.read_all()
        simulation.cluster.move_leader(TP, 2, truncate_to=10)
        for _ in range(2):
            with pytest.raises(LogTruncationError) as raised:
                consumer.poll(30_000)
            (divergent,) = raised.value.divergent_offsets.values()
            assert (divergent.offset, divergent.leader_epoch) == (10, 0)
        consumer.seek(TP, 10)
        produce(simulation, TP, 2)
        ledger.next[TP] = 10
        ledger.read_all()


@pytest.mark.behaviour(160)
def test_a_hint_in_the_fetch_response_saves_the_metadata_round_trip() -> None:
    with Simulation(brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 5)
        ledger = reading(simulation, TP)
        ledger.read_all()
        asked = sum(b.requests["MetadataRequest"] for b in simulation.cluster.brokers.values())
        simulation.cluster.move_leader(TP, 2)
        produce(simulation, TP, 5)
        ledger.read_all()
        again = sum(b.requests["MetadataRequest"] for b in simulation.cluster.brokers.values())
        assert again == asked


@pytest.mark.behaviour(172)
def test_all_brokers_are_replaced_behind_the_bootstrap_address() -> None:
    with Simulation(brokers=2) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 5)
        cluster = simulation.cluster
        consumer = simulation.consumer(
            auto_offset_reset="earliest", bootstrap_servers="10.0.0.1:9092,10.0.0.9:9092"
        )
        consumer.assign([TP])
        ledger = SimulatedLedger(simulation, consumer, [TP])
        ledger.read_all()
        for node_id in (1, 2):
            cluster.stop(node_id)
        new_broker = cluster.add_broker(9)
        cluster.move_leader(TP, new_broker.node_id)
        produce(simulation, TP, 5)
        ledger.read_all()


@pytest.mark.behaviour(27)
def test_an_empty_response_does_not_stall_later_ones() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        ledger = SimulatedLedger(simulation, consumer, [TP])
        consumer.poll(700)
        for _ in range(20):
            simulation.after(450, lambda: produce(simulation, TP, 1))
            began_ms = simulation.clock.now_ms()
            assert ledger.poll(5_000).count == 1
            assert simulation.clock.now_ms() - began_ms < 500


@BOTH
def test_no_member_expires_while_there_is_no_coordinator(protocol: Any) -> None:
    with Simulation(brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation))
        for _ in range(2):
            readers.join(Listener(), **protocol)
        readers.settle()
        before = [member.group_metadata() for member in readers.members]
        silent = readers.members.pop()
        silent._core.driver.parked.stalled_until_ms = 10**9  # type: ignore[attr-defined]
        simulation.cluster.stop(1)
        readers.poll(300)
        assert simulation.clock.now_ms() > 60_000, "ten sessions"
        simulation.cluster.start(1)
        began_ms = simulation.clock.now_ms()
        readers.poll(10)
        assert [readers.members[0].group_metadata(), silent.group_metadata()] == before
        while len(readers.members[0].assignment()) < 4:
            readers.poll()
        took_ms = simulation.clock.now_ms() - began_ms
        assert 6_000 <= took_ms <= 8_000, "a session, and a rebalance"


def test_the_revocation_timeout_begins_again_with_a_new_coordinator() -> None:
    with Simulation(brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation))
        options = {"group_protocol": "consumer", "max_poll_interval_ms": 10_000}
        listener = Listener()
        readers.join(listener, **options)
        readers.settle()
        new_member = readers.join(**options)
        while not any(
            member.state is MemberState.UNREVOKED
            for member in simulation.cluster.consumer_group("readers").members.values()
        ):
            new_member.poll(1)
        simulation.cluster.stop(1)
        readers.poll(60)
        assert simulation.clock.now_ms() > 20_000
        simulation.cluster.start(1)
        readers.settle()
        assert [kind for kind, _ in listener.calls] == ["assigned", "revoked", "assigned"]


def test_a_paused_broker_handles_everything_when_it_continues() -> None:
    with Simulation(brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        consumer = simulation.consumer(group_id="readers", request_timeout_ms=5_000)
        consumer.assign([TP])
        consumer.commit({TP: OffsetAndMetadata(1, "", -1)})
        cluster, coordinator = simulation.cluster, simulation.cluster.brokers[1]
        cluster.pause(1)
        asked = coordinator.requests["OffsetCommitRequest"]
        with pytest.raises(KafkaTimeoutError):
            consumer.commit({TP: OffsetAndMetadata(2, "", -1)}, timeout_ms=12_000)
        simulation.sleep(20_000)
        assert coordinator.requests["OffsetCommitRequest"] == asked
        assert cluster.committed("readers", TP) == 1
        cluster.resume(1)
        assert cluster.committed("readers", TP) == 2, "given up by then, with its connection"
        consumer.commit({TP: OffsetAndMetadata(3, "", -1)})
        assert cluster.committed("readers", TP) == 3


def test_a_paused_broker_that_is_killed_has_handled_nothing() -> None:
    with Simulation() as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(group_id="readers")
        consumer.commit({TP: OffsetAndMetadata(1, "", -1)})
        simulation.cluster.pause(1)
        with pytest.raises(KafkaTimeoutError):
            consumer.commit({TP: OffsetAndMetadata(2, "", -1)}, timeout_ms=1_000)
        simulation.cluster.stop(1)
        simulation.cluster.start(1)
        simulation.sleep(1_000)
        assert simulation.cluster.committed("readers", TP) == 1
        consumer.commit({TP: OffsetAndMetadata(3, "", -1)})
        assert simulation.cluster.committed("readers", TP) == 3
