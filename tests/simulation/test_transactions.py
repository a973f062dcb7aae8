"""Transactions: the records that both isolation levels read, also under faults."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import RecordDeserializationError
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.transactions import Transaction
from tests.implementations import IMPLEMENTATIONS, require_implementation, use_readers
from tests.tier import seeds

TP = TopicPartition("orders", 0)


@pytest.fixture(params=IMPLEMENTATIONS, autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record path of one implementation or the other."""
    require_implementation(request.param)
    use_readers(request.param, monkeypatch)


def reader(simulation: Simulation, *, committed: bool, **options: object) -> KafkaConsumer:
    level = "read_committed" if committed else "read_uncommitted"
    consumer = simulation.consumer(isolation_level=level, auto_offset_reset="earliest", **options)
    consumer.assign([TP])
    return consumer


def values(consumer: KafkaConsumer, timeout_ms: int = 5_000) -> list[bytes]:
    """Return all values until no more arrive for a while."""
    found: list[bytes] = []
    while batch := consumer.poll(timeout_ms):
        found += [record.value for record in batch.get(TP, ())]
    return found


def test_an_open_transaction_holds_back_later_records() -> None:
    with Simulation("open transaction") as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders")
        cluster.produce(TP, b"before")
        transaction = cluster.transaction()
        transaction.produce(TP, b"inside")
        cluster.produce(TP, b"behind")
        committed = reader(simulation, committed=True)
        everything = reader(simulation, committed=False)
        assert values(everything) == [b"before", b"inside", b"behind"]
        assert values(committed) == [b"before"]
        assert committed.position(TP) == 1
        assert committed.end_offsets([TP]) == {TP: 1}
        assert everything.end_offsets([TP]) == {TP: 3}
        assert committed.current_lag(TP) == 0
        assert committed.highwater(TP) == 3
        began_ms = simulation.clock.now_ms()
        simulation.after(3_000, transaction.commit)
        assert [r.value for r in committed.poll(60_000)[TP]] == [b"inside", b"behind"]
        assert simulation.clock.now_ms() - began_ms < 3_100, "the fetch that waits is answered"


def test_lookups_by_time_find_decided_records_only() -> None:
    with Simulation("times") as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders")
        cluster.produce(TP, b"old")
        simulation.sleep(1_000)
        transaction = cluster.transaction()
        now = simulation.clock.wall_ms()
        transaction.produce(TP, b"open")
        committed = reader(simulation, committed=True)
        everything = reader(simulation, committed=False)
        assert committed.offsets_for_times({TP: now}) == {TP: None}
        assert everything.offsets_for_times({TP: now})[TP].offset == 1
        transaction.commit()
        assert committed.offsets_for_times({TP: now})[TP].offset == 1


def test_a_transaction_with_a_lost_marker_is_open_again() -> None:
    with Simulation("lost marker", brokers=2) as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders")
        cluster.produce(TP, b"before")
        with cluster.transaction() as transaction:
            transaction.produce(TP, b"inside")
        committed = reader(simulation, committed=True)
        assert values(committed) == [b"before", b"inside"]
        cluster.move_leader(TP, 2, truncate_to=2)
        cluster.produce(TP, b"behind")
        assert values(committed) == []
        assert committed.position(TP) == 2
        late = reader(simulation, committed=True)
        assert values(late) == [b"before"]


def test_an_aborted_transaction_of_a_new_leader_is_not_taken_for_a_truncation() -> None:
    """The position is behind it, at a record of the same poll that cannot be deserialized."""
    with Simulation("aborted by another leader", brokers=2) as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders")
        cluster.produce(TP, b"0")
        cluster.move_leader(TP, 3 - cluster.at(TP).leader)
        transaction = cluster.transaction()
        transaction.produce(TP, b"gone")
        transaction.abort()
        cluster.produce(TP, b"bad")
        consumer = reader(
            simulation, committed=True, metadata_max_age_ms=1_000, value_deserializer=int
        )
        assert [record.offset for record in consumer.poll(5_000)[TP]] == [0]
        cluster.move_leader(TP, 3 - cluster.at(TP).leader)
        simulation.sleep(5_000)
        with pytest.raises(RecordDeserializationError):
            consumer.poll(5_000)
        assert consumer.position(TP) == 3


@dataclass
class World:
    """Producers that write to one partition, and a ledger of each record's fate."""

    simulation: Simulation
    written: list[tuple[int, bytes, Transaction | None]] = field(default_factory=list)
    open: list[Transaction] = field(default_factory=list)
    aborted: set[Transaction] = field(default_factory=set)

    def act(self) -> None:
        random, cluster = self.simulation.random, self.simulation.cluster
        match random.randrange(8):
            case 0 | 1:
                self.write(None)
            case 2 if len(self.open) < 3:
                self.open.append(cluster.transaction())
            case 3 if self.open:
                self.end()
            case 4:
                cluster.move_leader(TP, random.choice(list(cluster.brokers)))
            case 5:
                self.simulation.network.cut(cluster.brokers[random.choice((1, 2))].address)
            case _ if self.open:
                self.write(random.choice(self.open))

    def end(self) -> None:
        random = self.simulation.random
        ending = self.open.pop(random.randrange(len(self.open)))
        if random.random() < 0.5:
            ending.commit()
        else:
            self.aborted.add(ending)
            ending.abort()
        if random.random() < 0.7:  # the same producer continues
            self.open.append(self.simulation.cluster.transaction(ending.producer_id))

    def write(self, transaction: Transaction | None) -> None:
        cluster = self.simulation.cluster
        begin = cluster.at(TP).log.end_offset
        batch = [b"%d" % (begin + n) for n in range(self.simulation.random.randint(1, 4))]
        if transaction is None:
            cluster.produce(TP, *batch)
        else:
            transaction.produce(TP, *batch)
        self.written += [(begin + n, value, transaction) for n, value in enumerate(batch)]

    def visible(self, *, committed: bool) -> list[tuple[int, bytes]]:
        """Return the values that a reader from the beginning may have by now."""
        if not committed:
            return [(offset, value) for offset, value, _ in self.written]
        undecided = [offset for offset, _, t in self.written if t in self.open]
        stable = min(undecided, default=2**62)
        return [
            (offset, value)
            for offset, value, transaction in self.written
            if offset < stable and transaction not in self.aborted
        ]


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_readers_of_both_isolation_levels_see_exactly_their_records(seed: int) -> None:
    with Simulation(f"transactions {seed}", brokers=2) as simulation:
        simulation.cluster.create_topic("orders")
        world = World(simulation)
        random = simulation.random
        readers = {
            committed: reader(
                simulation,
                committed=committed,
                max_partition_fetch_bytes=random.choice([100, 400, 100_000]),
                max_poll_records=random.choice([1, 3, 500]),
                reconnect_backoff_max_ms=1_000,
            )
            for committed in (True, False)
        }
        read: dict[bool, list[tuple[int, bytes]]] = {True: [], False: []}

        def poll(timeout_ms: int) -> None:
            for committed, consumer in readers.items():
                batch = consumer.poll(timeout_ms)
                read[committed] += [(r.offset, r.value) for r in batch.get(TP, ())]
                allowed = world.visible(committed=committed)
                assert read[committed] == allowed[: len(read[committed])]

        for _ in range(80):
            world.act()
            poll(random.choice([0, 0, 20, 300]))
        for transaction in world.open:
            world.aborted.add(transaction)
            transaction.abort()
        world.open.clear()
        until_ms = simulation.clock.now_ms() + 60_000
        end = simulation.cluster.at(TP).log.end_offset
        while any(consumer.position(TP) < end for consumer in readers.values()):
            assert simulation.clock.now_ms() < until_ms, "stuck"
            poll(300)
        assert all(read[level] == world.visible(committed=level) for level in readers)
