"""Consumers that read from a replica in their rack (KIP-392)."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import OffsetOutOfRangeError
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, FetchRequest, JoinGroupRequest
from tandem_kafka_testing import Call, Simulation
from tests.histories.ledger import SimulatedLedger, reading
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.readers import OPTIONS, Readers

TP = TopicPartition("orders", 0)
LEASE_MS = 60_000


def world(seed: str, brokers: int = 2, **more: object) -> Simulation:
    """The leader of the partition is in "there"; a follower, broker 2, is "here"."""
    return Simulation(seed, brokers=brokers, racks=["there", "here"], **more)


def started(simulation: Simulation, **options: object) -> tuple[KafkaConsumer, SimulatedLedger]:
    create_topic(simulation, "orders", 1)
    produce(simulation, TP, 5)
    consumer = simulation.consumer(
        **{
            "auto_offset_reset": "earliest",
            "client_rack": "here",
            "metadata_max_age_ms": LEASE_MS,
            **options,
        }
    )
    consumer.assign([TP])
    return consumer, SimulatedLedger(simulation, consumer, [TP])


def fetches(simulation: Simulation, node_id: int) -> int:
    return simulation.cluster.brokers[node_id].requests.get("FetchRequest", 0)


def read_from(simulation: Simulation, ledger: SimulatedLedger) -> set[int]:
    """Read a new record; return the brokers that got fetches."""
    before = {node_id: fetches(simulation, node_id) for node_id in simulation.cluster.brokers}
    for _ in range(3):
        produce(simulation, TP, 2)
        ledger.read_all()
    return {node_id for node_id, count in before.items() if fetches(simulation, node_id) > count}


def test_a_consumer_reads_from_a_follower_in_its_rack() -> None:
    with world("rack") as simulation:
        _, ledger = started(simulation)
        ledger.read_all()
        assert read_from(simulation, ledger) == {2}


@pytest.mark.parametrize(
    ("rack", "kafka"), [("there", None), ("", None), ("away", None), ("here", "0.11")]
)
def test_other_consumers_read_from_the_leader(rack: str, kafka: str | None) -> None:
    with world(f"elsewhere {rack} {kafka}", kafka=kafka) as simulation:
        _, ledger = started(simulation, client_rack=rack)
        ledger.read_all()
        assert read_from(simulation, ledger) == {1}


def test_only_replicas_of_the_partition_are_used() -> None:
    with world("two of three", brokers=3) as simulation:
        simulation.cluster.create_topic("orders", 1, replicas=1)
        produce(simulation, TP, 5)
        ledger = reading(simulation, TP, client_rack="here")
        ledger.read_all()
        assert read_from(simulation, ledger) == {1}


def test_the_leader_replaces_a_failed_follower_without_duplicates() -> None:
    with world("gone") as simulation:
        _, ledger = started(simulation)
        ledger.read_all()
        simulation.cluster.stop(2)
        began_ms = simulation.clock.now_ms()
        produce(simulation, TP, 2)
        ledger.read_all(within_ms=5_000)
        assert simulation.clock.now_ms() - began_ms < 5_000
        assert read_from(simulation, ledger) == {1}
        simulation.cluster.start(2)
        # The leader must be asked again, at the latest when metadata expires.
        for _ in range(3):
            simulation.sleep(LEASE_MS)
            ledger.read_all()
        assert read_from(simulation, ledger) == {2}


def test_a_lagging_follower_is_left_when_the_lease_ends() -> None:
    with world("lease") as simulation:
        consumer, ledger = started(simulation)
        ledger.read_all()
        simulation.cluster.fall_behind(TP, 2)
        produce(simulation, TP, 3)
        leased_ms = LEASE_MS - simulation.clock.now_ms()
        assert leased_ms > 40_000
        for _ in range(4):
            assert not ledger.poll(10_000), "the follower has nothing to give"
        assert fetches(simulation, 1) == 1, "the leader is not asked as long as the lease lasts"
        ledger.read_all(within_ms=LEASE_MS)
        assert consumer.position(TP) == 8
        simulation.cluster.catch_up(TP, 2)
        simulation.sleep(1_000)
        ledger.read_all()
        assert read_from(simulation, ledger) == {2}, "and it is near again"


def test_an_offset_out_of_range_for_the_follower_is_read_from_the_leader() -> None:
    """No reset: the leader has the offset."""
    with world("follower out of range") as simulation:
        consumer, ledger = started(simulation, auto_offset_reset="none")
        consumer.seek(TP, 0)
        ledger.read_all()
        simulation.cluster.fall_behind(TP, 2)
        produce(simulation, TP, 5)
        consumer.seek(TP, 8)
        ledger.next[TP] = 8
        ledger.read_all(within_ms=10_000)
        assert consumer.position(TP) == 10


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_an_offset_out_of_range_for_the_leader_is_reset_or_raised(policy: str) -> None:
    with world(f"out of range {policy}") as simulation:
        consumer, ledger = started(simulation, auto_offset_reset=policy)
        consumer.seek(TP, 0)
        ledger.read_all()
        produce(simulation, TP, 5)
        simulation.cluster.delete_records(TP, 7)
        consumer.seek(TP, 2)
        before = fetches(simulation, 1)
        if policy == "none":
            with pytest.raises(OffsetOutOfRangeError):
                consumer.poll(10_000)
            consumer.seek(TP, 7)
        ledger.next[TP] = 7
        ledger.read_all()
        assert fetches(simulation, 1) > before, "the leader was asked before"


def test_a_new_leader_is_asked_for_the_closest_replica() -> None:
    with world("new leader", brokers=3) as simulation:
        _, ledger = started(simulation)
        ledger.read_all()
        simulation.cluster.move_leader(TP, 3)
        assert 2 in read_from(simulation, ledger)
        assert fetches(simulation, 3) >= 1
        simulation.cluster.move_leader(TP, 2)
        ledger.read_all()
        assert read_from(simulation, ledger) == {2}


@pytest.mark.parametrize("seed", range(15))
def test_nothing_is_lost_or_read_twice_from_changing_replicas(seed: int) -> None:
    with world(f"racks {seed}", brokers=4) as simulation:
        cluster, random = simulation.cluster, simulation.random
        _, ledger = started(simulation, metadata_max_age_ms=5_000)
        for _ in range(25):
            partition = cluster.at(TP)
            node_id = random.choice([n for n in cluster.brokers if n != partition.leader])
            match random.randrange(6):
                case 0:
                    cluster.fall_behind(TP, node_id)
                case 1:
                    cluster.catch_up(TP, node_id)
                case 2 if node_id in cluster.in_sync(partition):
                    cluster.move_leader(TP, node_id)
                case 3:
                    cluster.stop(node_id)
                case 4:
                    cluster.start(node_id)
                case _:
                    produce(simulation, TP, 3)
            ledger.poll(random.choice([0, 50, 1_000]))
        for node_id in cluster.brokers:
            cluster.start(node_id)
            cluster.catch_up(TP, node_id)
        ledger.read_all()


def test_a_classic_member_sends_its_rack_in_its_subscription() -> None:
    with world("subscription") as simulation:
        readers = Readers(simulation, create_topic(simulation, "orders", 2))
        said: list[str | None] = []

        def listen(call: Call) -> object:
            metadata = [bytes(protocol.metadata) for protocol in call.request.protocols]
            said.extend(ConsumerProtocolSubscription.decode(each).rack_id for each in metadata)
            return call.default()

        simulation.cluster.script(JoinGroupRequest, listen)
        readers.join(client_rack="here", group_protocol="classic")
        readers.settle()
        assert said
        assert set(said) == {"here"}


def test_a_kip_848_member_sends_its_rack_when_it_joins() -> None:
    with world("heartbeat") as simulation:
        create_topic(simulation, "orders", 2)
        said: list[str | None] = []

        def listen(call: Call) -> object:
            said.append(call.request.rack_id)
            return call.default()

        simulation.cluster.script(ConsumerGroupHeartbeatRequest, *[listen] * 3)
        options = {k: v for k, v in OPTIONS.items() if k in {"group_id", "auto_offset_reset"}}
        consumer = simulation.consumer(
            "orders", client_rack="here", group_protocol="consumer", **options
        )
        for _ in range(5):
            consumer.poll(1_000)
        assert said == ["here", None, None], "what has not changed is not said again"


def test_the_leader_recommends_the_follower_before_sending_records() -> None:
    with world("answer") as simulation:
        answers = []

        def listen(call: Call) -> object:
            answers.append((call.broker.node_id, call.default()))
            return answers[-1][1]

        simulation.cluster.script(FetchRequest, listen)
        _, ledger = started(simulation)
        ledger.read_all()
        ((node_id, answer),) = answers
        (entry,) = answer.responses[0].partitions
        assert (node_id, entry.preferred_read_replica, entry.records) == (1, 2, b"")
        assert (entry.high_watermark, entry.log_start_offset) == (5, 0)
