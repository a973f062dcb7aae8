"""The whole consumer with brokers of old and new releases."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import SubscriptionPattern, TopicPartition
from tandem_kafka.errors import UnsupportedVersionError
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.broker import SimBroker
from tandem_kafka_testing.cluster.releases import RELEASES
from tests.histories.ledger import SimulatedLedger, reading
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.share_members import share_consumer
from tests.simulation.readers import Readers

NAMES = sorted(RELEASES)
TP = TopicPartition("orders", 0)


def asked(simulation: Simulation, request: str) -> int:
    return sum(broker.requests.get(request, 0) for broker in simulation.cluster.brokers.values())


@pytest.mark.parametrize("kafka", NAMES)
def test_a_classic_group_shares_reads_and_commits(kafka: str) -> None:
    with Simulation(f"classic group {kafka}", brokers=2, kafka=kafka) as simulation:
        tps = create_topic(simulation, "orders", 4)
        readers = Readers(simulation, tps)
        for tp in tps:
            produce(simulation, tp, 5)
        first = readers.join(group_protocol="classic")
        second = readers.join(group_protocol="classic")
        readers.settle()
        assert len(first.assignment()) == len(second.assignment()) == 2
        assert len(readers.read) == 20
        first.commit()
        second.commit()
        assert all(simulation.cluster.committed("readers", tp) == 5 for tp in tps)
        readers.leave(second)
        produce(simulation, tps[0], 3)
        readers.settle()
        assert first.assignment() == set(tps)
        assert set(readers.read.values()) == {1}, "nothing was read again"


@pytest.mark.parametrize("kafka", NAMES)
def test_positions_commits_and_times_without_a_group_protocol(kafka: str) -> None:
    with Simulation(f"assigned {kafka}", brokers=2, kafka=kafka) as simulation:
        tps = create_topic(simulation, "orders", 2)
        times = []
        for _ in range(3):
            times.append(simulation.clock.wall_ms())
            for tp in tps:
                produce(simulation, tp, 2)
            simulation.sleep(1_000)
        options = {"group_id": "readers", "auto_offset_reset": "earliest"}
        consumer = simulation.consumer(**options)
        consumer.assign(tps)
        ledger = SimulatedLedger(simulation, consumer, tps)
        ledger.read_all()
        assert ledger.commit(10_000)
        assert consumer.committed(TP) == 6
        consumer.seek(TP, 3)
        ledger.next[TP] = 3
        ledger.read_all()
        assert consumer.beginning_offsets(tps) == dict.fromkeys(tps, 0)
        assert consumer.end_offsets(tps) == dict.fromkeys(tps, 6)
        found = consumer.offsets_for_times({TP: times[0] + 1})[TP]
        assert (found.offset, found.timestamp) == (2, times[1])
        assert found.leader_epoch == (-1 if kafka == "0.11" else 0)
        assert consumer.offsets_for_times({TP: times[-1] + 1})[TP] is None
        other = simulation.consumer(**options)
        other.assign(tps)
        assert other.position(TP) == 6, "what was committed"
        other.seek_to_beginning(TP)
        assert other.position(TP) == 0


@pytest.mark.parametrize("kafka", NAMES)
def test_the_consumer_survives_moved_leaders_and_restarted_brokers(kafka: str) -> None:
    with Simulation(f"leaders {kafka}", brokers=3, kafka=kafka) as simulation:
        tps = create_topic(simulation, "orders", 3)
        consumer = simulation.consumer(
            group_id="readers", auto_offset_reset="earliest", reconnect_backoff_max_ms=1_000
        )
        consumer.assign(tps)
        ledger = SimulatedLedger(simulation, consumer, tps)
        for _ in range(12):
            for tp in tps:
                produce(simulation, tp, 2)
            node_id = simulation.random.choice((1, 2, 3))
            if simulation.random.random() < 0.5:
                simulation.cluster.stop(node_id, elect=True)
                simulation.after(1_000, lambda node_id=node_id: simulation.cluster.start(node_id))
            else:
                simulation.cluster.move_leader(simulation.random.choice(tps), node_id)
            simulation.sleep(1_500)
            ledger.read_all()
        assert ledger.commit(30_000)


@pytest.mark.parametrize("kafka", NAMES)
def test_auto_selects_the_protocol_of_the_release(kafka: str) -> None:
    with Simulation(f"auto {kafka}", brokers=2, kafka=kafka) as simulation:
        tps = create_topic(simulation, "orders", 2)
        produce(simulation, TP, 3)
        consumer = simulation.consumer(
            "orders", group_id="readers", group_protocol="auto", auto_offset_reset="earliest"
        )
        assert consumer.poll(30_000).count == 3
        assert consumer.assignment() == set(tps)
        modern = simulation.cluster.consumer_group("readers").members
        classic = simulation.cluster.group("readers").members
        assert bool(modern) == (kafka == "4.3")
        assert bool(classic) == (kafka != "4.3")


@pytest.mark.parametrize("kafka", ["0.11", "2.8", "3.9"])
def test_kip_848_without_support_is_rejected_with_the_reason(kafka: str) -> None:
    with Simulation(f"consumer {kafka}", kafka=kafka) as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", group_id="readers", group_protocol="consumer")
        with pytest.raises(UnsupportedVersionError, match="classic"):
            consumer.poll(30_000)
        consumer.unsubscribe()


@pytest.mark.behaviour(53)
@pytest.mark.parametrize("kafka", [name for name in NAMES if name < "4"])
def test_a_subscription_pattern_without_kip_848_is_rejected(kafka: str) -> None:
    with Simulation(f"pattern {kafka}", kafka=kafka) as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(group_id="readers", group_protocol="auto")
        pattern = SubscriptionPattern("ord.*")
        consumer.subscribe(pattern=pattern)
        for _ in range(2):
            with pytest.raises(UnsupportedVersionError, match="SubscriptionPattern needs"):
                consumer.poll(30_000)
        consumer.unsubscribe()
        consumer.subscribe(["orders"])
        while consumer.assignment() != {TP}:
            consumer.poll(200)
        consumer.unsubscribe()
        with pytest.raises(UnsupportedVersionError, match="SubscriptionPattern needs"):
            consumer.subscribe(pattern=pattern)
        assert consumer.subscription() is None
        consumer.subscribe(pattern="ord.*")
        while consumer.assignment() != {TP}:
            consumer.poll(200)


@pytest.mark.parametrize(("kafka", "sessions"), [("0.11", 0), ("2.8", 1), ("3.9", 1), ("4.3", 1)])
def test_fetch_sessions_are_used_if_supported(kafka: str, sessions: int) -> None:
    with Simulation(f"sessions {kafka}", kafka=kafka) as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 1)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        for _ in range(5):
            consumer.poll(1_000)
        assert len(simulation.cluster.brokers[1].sessions) == sessions


@pytest.mark.parametrize("kafka", NAMES)
def test_truncation_is_noticed_if_leader_epochs_are_supported(kafka: str) -> None:
    with Simulation(f"truncation {kafka}", brokers=2, kafka=kafka) as simulation:
        create_topic(simulation, "orders", 1)
        for _ in range(4):
            produce(simulation, TP, 5)
        ledger = reading(simulation, TP)
        ledger.read_all()
        simulation.cluster.move_leader(TP, 2, truncate_to=10)
        if kafka == "0.11":  # only out of range can be noticed: everything is read again
            ledger.next[TP] = 0
            ledger.read_all()
            assert asked(simulation, "OffsetForLeaderEpochRequest") == 0
        else:
            produce(simulation, TP, 3)
            ledger.next[TP] = 10
            ledger.read_all()
            assert asked(simulation, "OffsetForLeaderEpochRequest") > 0


def test_a_group_survives_a_rolling_upgrade_of_the_cluster() -> None:
    with Simulation("upgrade", brokers=3, kafka="2.8") as simulation:
        tps = create_topic(simulation, "orders", 3)
        readers = Readers(simulation, tps)
        consumer = readers.join(reconnect_backoff_max_ms=1_000)
        for kafka in ("3.9", "4.3"):
            for node_id in (1, 2, 3):
                for tp in tps:
                    produce(simulation, tp, 2)
                simulation.cluster.upgrade(node_id, kafka)
                readers.settle()
                consumer.commit()
        assert len(readers.read) == 3 * 2 * 6
        assert set(readers.read.values()) == {1}


# --- brokers that do not tell the names of topic ids ---------------------------------------------


@pytest.fixture
def limited(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Brokers that support Metadata up to this version, as some gateways do."""
    offered = SimBroker.offered.fget
    assert offered is not None
    highest: int = request.param
    versions = property(lambda broker: {**offered(broker), 3: (0, highest)})
    monkeypatch.setattr(SimBroker, "offered", versions)
    return highest


def poll_on(consumer: Any) -> None:
    for _ in range(100):
        consumer.poll(100)


@pytest.mark.parametrize("pattern", [False, True])
@pytest.mark.parametrize("limited", [9, 11], indirect=True)
def test_topic_ids_without_names_are_an_error(limited: int, pattern: bool) -> None:
    with Simulation("topic ids") as simulation:
        create_topic(simulation, "orders", 2)
        consumer = simulation.consumer(
            group_id="readers", group_protocol="consumer", default_api_timeout_ms=5_000
        )
        if pattern:
            consumer.subscribe(pattern=SubscriptionPattern("ord.*"))
        else:
            consumer.subscribe(["orders"])
        if limited == 11 and not pattern:
            while len(consumer.assignment()) < 2:  # a request by name has the ids
                consumer.poll(100)
            return
        with pytest.raises(UnsupportedVersionError) as raised:
            poll_on(consumer)
        advice = "subscribe to topic names" if pattern else "set group_protocol='classic'"
        assert "do not tell the names of topic ids" in str(raised.value)
        assert advice in str(raised.value)
        assert not simulation.cluster.group("readers").members, "it has left"
        assert not consumer.health().ready
        with pytest.raises(UnsupportedVersionError):
            consumer.poll(100)


@pytest.mark.parametrize("limited", [9], indirect=True)
def test_auto_falls_back_where_topic_ids_have_no_names(limited: int) -> None:
    assert limited == 9
    with Simulation("topic ids with auto") as simulation:
        tps = create_topic(simulation, "orders", 2)
        consumer = simulation.consumer("orders", group_id="readers", group_protocol="auto")
        poll_on(consumer)
        assert consumer.assignment() == set(tps)


@pytest.mark.parametrize("limited", [9], indirect=True)
def test_topic_ids_without_names_are_an_error_of_share_groups(limited: int) -> None:
    assert limited == 9
    with Simulation("topic ids of a share group") as simulation:
        create_topic(simulation, "orders", 2)
        consumer = share_consumer(simulation, "orders", group_id="shares")
        with pytest.raises(UnsupportedVersionError, match="do not tell the names of topic ids"):
            poll_on(consumer)
        consumer.close()
