"""Random histories of consumers whose transport repeats fetches: what each partition goes through.

Leases of followers, seeks, pauses, new leaders, bursts over all partitions and full buffers move
partitions into slots whose fetches stand, and out of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.runtime.native import native
from tandem_kafka.state.partition import AssignedPartition
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.transactions import Transaction
from tests.scenarios import run_seed
from tests.scenarios.numbered_records import create_topic, next_values
from tests.scenarios.runner import silence
from tests.simulation.repeating import RepeatingSimulation, RepeatingTransport
from tests.tier import sample, seeds

pytestmark = pytest.mark.skipif(native is None, reason="only native code repeats fetches")

SEEDS = seeds(1, 15)
STEPS = 150
#: Steps until partitions without records have become quiet.
QUIET_STEPS = 30


@dataclass(frozen=True)
class Kind:
    """What a history is about.

    Attributes:
        partitions: The numbers of partitions to choose from.
        brokers: The number of brokers.
        racks: Whether the consumer reads from a follower in its rack.
        events: What happens, and how likely it is beside nothing at all, which has 40.
    committed: Whether the consumer reads committed records only.
    """

    partitions: Sequence[int]
    brokers: int
    racks: bool
    events: Mapping[str, int]
    committed: bool = False


KINDS = {
    "bursts": Kind((120, 240), 1, False, {"wake": 12, "burst": 2, "backlog": 3}),
    "leases": Kind((4, 7), 2, True, {"seek": 4}),
    "moves": Kind((3, 8, 60), 2, False, {"wake": 4, "seek": 4, "move": 1, "swap": 2}),
    "ends": Kind(
        (3, 8, 60),
        2,
        False,
        {"wake": 4, "seek": 4, "swap": 2, "limit": 4, "unlimit": 4, "truncate": 2, "recreate": 1},
    ),
    "full": Kind(
        (3, 8, 60),
        2,
        True,
        {"wake": 4, "seek": 4, "pause": 3, "resume": 6, "move": 1, "swap": 2, "flood": 8}
        | {"begin": 4, "commit": 4, "abort": 3, "cut": 1, "sleep": 2, "limit": 1, "unlimit": 2},
        committed=True,
    ),
    "transactions": Kind(
        (3, 8, 60),
        1,
        False,
        {"wake": 4, "seek": 4, "pause": 2, "resume": 4, "backlog": 1}
        | {"begin": 8, "commit": 6, "abort": 6},
        committed=True,
    ),
    "all": Kind(
        (3, 8, 120),
        2,
        True,
        {"wake": 12, "burst": 2, "backlog": 3, "seek": 6, "pause": 6, "resume": 6, "move": 2}
        | {"sleep": 4, "swap": 2},
    ),
}
#: The longest round trip.
ROUND_TRIP_MS = 10
#: How long a partition with data at its leader may wait until a fetch of it is sent: for a fetch in
#: flight that brings other data, or on the bypass, where a fetch is parked for 10 ms.
SOON_MS = 20
#: As long, what depends on metadata, on a lease or on a new connection takes longer.
CHANGING_MS = 2_500


class Logs:
    """What the partitions contain; each record names its offset and its time.

    Attributes:
        rewinds: Where a consumer may continue that has not noticed the loss of records yet.
    open: The open transaction of a partition.
    hidden: The offsets of markers and of the records of aborted transactions.
    """

    def __init__(
        self, simulation: RepeatingSimulation, partitions: Sequence[TopicPartition]
    ) -> None:
        self._simulation = simulation
        self._values: dict[TopicPartition, list[bytes]] = {tp: [] for tp in partitions}
        self._lost: set[tuple[TopicPartition, int, bytes]] = set()
        self._version = 0
        self.rewinds: dict[TopicPartition, set[int]] = {tp: set() for tp in partitions}
        self.open: dict[TopicPartition, tuple[Transaction, list[int]]] = {}
        self.hidden: dict[TopicPartition, set[int]] = {tp: set() for tp in partitions}

    def produce(self, tp: TopicPartition, count: int) -> None:
        values = next_values(self._simulation, tp, count, self._version)
        self._append(tp, self._simulation.cluster.produce(tp, *values), values)

    def _append(self, tp: TopicPartition, offset: int, values: Sequence[bytes]) -> None:
        known = self._values[tp]
        known += [b"marker"] * (offset - len(known))
        known += values

    def produce_in_transaction(self, tp: TopicPartition, count: int) -> None:
        if tp not in self.open:
            self.open[tp] = self._simulation.cluster.transaction(), []
        transaction, offsets = self.open[tp]
        values = next_values(self._simulation, tp, count, self._version)
        offset = transaction.produce(tp, *values)
        self._append(tp, offset, values)
        offsets += range(offset, offset + count)

    def end_transaction(self, tp: TopicPartition, *, committed: bool) -> None:
        if tp not in self.open:
            return
        transaction, offsets = self.open.pop(tp)
        self.hidden[tp].add(self._simulation.cluster.at(tp).log.end_offset)  # the marker
        if committed:
            transaction.commit()
        else:
            self.hidden[tp].update(offsets)
            transaction.abort()

    def next_visible(self, tp: TopicPartition, offset: int) -> int:
        """The offset of the first record from `offset` on that the consumer may get."""
        while offset in self.hidden[tp]:
            offset += 1
        return offset

    def truncate(self, tp: TopicPartition, offset: int) -> None:
        partition = self._simulation.cluster.at(tp)
        self._simulation.cluster.move_leader(tp, 3 - partition.leader, truncate_to=offset)
        self._lose(tp, partition.log.end_offset)  # whole batches are lost

    def recreate(self) -> None:
        (name,) = {tp.topic for tp in self._values}
        self._simulation.cluster.recreate_topic(name)
        for tp in self._values:
            self._lose(tp, 0)

    def _lose(self, tp: TopicPartition, offset: int) -> None:
        values = self._values[tp]
        self._lost |= {(tp, at, values[at]) for at in range(offset, len(values))}
        del values[offset:]
        self._version += 1
        self.rewinds[tp].add(offset)
        self.produce(tp, 5)

    def check(self, tp: TopicPartition, offset: int, value: bytes | None, expected: int) -> None:
        """Check a record; lost ones may be returned until the consumer notices the loss."""
        rewinds = self.rewinds[tp]
        expected = self.next_visible(tp, expected)
        assert tp not in self.open or offset not in self.open[tp][1]
        assert offset == expected or offset in rewinds, f"{tp}: {offset}, {expected} was next"
        if [value] == self._values[tp][offset : offset + 1]:
            rewinds -= {each for each in rewinds if each <= offset}
            return
        assert rewinds, f"{tp}: {value!r} at {offset}"
        assert (tp, offset, value) in self._lost


class History:
    """One consumer without a group, and what happens to its partitions.

    Attributes:
        logs: What the partitions contain.
        expected: The offset of the next record, by partition.
        limited: The partitions that have a stop.
        worst_ms: The longest wait of a partition with data at its leader.
    """

    def __init__(self, simulation: RepeatingSimulation, kind: Kind) -> None:
        self.simulation = simulation
        self.kind = kind
        self.random = random = Random(f"{simulation.seed}/history")
        self.partitions = create_topic(simulation, "orders", random.choice(kind.partitions))
        if kind.racks:  # a lease for one partition in four
            for number, tp in enumerate(self.partitions):
                simulation.cluster.move_leader(tp, 2 if number % 4 else 1)
        self.logs = Logs(simulation, self.partitions)
        self.expected = dict.fromkeys(self.partitions, 0)
        self.limited: set[TopicPartition] = set()
        self.unread_since_seek: set[TopicPartition] = set()
        self.busy = random.sample(self.partitions, 3)
        self.dozing = random.sample(self.partitions, 3)
        self.consumer = self._consumer()
        self._transport = self._standing_transport()
        self._transport.look = self.look
        self._waits: dict[AssignedPartition, tuple[int, int]] = {}
        self._changing_until_ms = dict.fromkeys(self.partitions, CHANGING_MS)
        self.worst_ms = 0

    def _consumer(self) -> KafkaConsumer:
        random = self.random
        fetched, buffered = random.choice([(2_000, 40_000), (2_000, 1 << 26), (1 << 20, 1 << 26)])
        if "flood" in self.kind.events:
            fetched, buffered = 2_000, random.choice([8_000, 20_000])
        self.options: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": random.choice([100, 500]),
            "metadata_max_age_ms": random.choice([1_000, 300_000]),
            "max_partition_fetch_bytes": fetched,
            "fetch_buffer_max_bytes": buffered,
            "client_rack": "a" if self.kind.racks else "",
            "isolation_level": "read_committed" if self.kind.committed else "read_uncommitted",
        }
        consumer = self.simulation.consumer(**self.options)
        consumer.assign(self.partitions)
        return consumer

    def _standing_transport(self) -> RepeatingTransport:
        transport = self.consumer._core.engine.transport
        assert isinstance(transport, RepeatingTransport)
        return transport

    @property
    def repeated(self) -> int:
        return self._transport.repeated

    # --- what happens ----------------------------------------------------------------------------

    def run(self) -> None:
        for number in range(STEPS):
            self.trickle()
            if number > QUIET_STEPS:
                self.happen()
            self.look()
            self.poll(self.random.choice([0, 5, 20, 60]))
            self.simulation.sleep(self.random.choice([0, 10, 80]))
        self.consumer.resume(*self.consumer.assignment())
        for tp in self.partitions:
            self.unlimit(tp)
            self.commit(tp)
        until_ms = self.now_ms + 60_000
        while any(self.unread(tp) for tp in self.partitions):
            assert self.now_ms < until_ms, "records do not arrive"
            self.poll(200)

    def trickle(self) -> None:
        for tp in self.busy:
            if self.random.random() < 0.7:
                self.logs.produce(tp, self.random.randrange(1, 4))

    def happen(self) -> None:
        events = {"nothing": 40, **self.kind.events}
        (event,) = self.random.choices(list(events), list(events.values()))
        if event != "nothing":
            getattr(self, event)(self.random.choice(self.partitions))

    def wake(self, _: TopicPartition) -> None:
        self.logs.produce(self.random.choice(self.dozing), 1)

    def burst(self, _: TopicPartition) -> None:
        for tp in self.partitions:
            self.logs.produce(tp, 1)

    def backlog(self, _: TopicPartition) -> None:
        """Produce what takes many fetches; a standing fetch that is made meanwhile expects data."""
        tp, other = self.random.sample(self.busy, 2)
        for _ in range(60):
            self.logs.produce(tp, 20)
        self.simulation.sleep(20)
        self.consumer.pause(other)
        self.consumer.resume(other)

    def flood(self, _: TopicPartition) -> None:
        """Produce more than the buffer can hold, and take nothing for a while."""
        for tp in self.busy:
            for _ in range(20):
                self.logs.produce(tp, 20)
        self.simulation.sleep(self.random.choice([20, 100, 70_000]))

    def cut(self, _: TopicPartition) -> None:
        """Cut all connections to a broker."""
        broker = self.random.choice(list(self.simulation.cluster.brokers.values()))
        self.simulation.network.cut(broker.address)
        self._changing(*self.partitions)

    def seek(self, tp: TopicPartition) -> None:
        known = min(self.expected[tp], *self.logs.rewinds[tp], self.end_of(tp))
        self.expected[tp] = self.random.randrange(known + 1)
        self.unread_since_seek.add(tp)
        self.consumer.seek(tp, self.expected[tp])
        self._changing(tp)

    def begin(self, tp: TopicPartition) -> None:
        """Write to a new or an open transaction."""
        tp = self.random.choice([*self.busy, tp])
        self.logs.produce_in_transaction(tp, self.random.randrange(1, 4))

    def commit(self, tp: TopicPartition) -> None:
        self._end_one(tp, committed=True)

    def abort(self, tp: TopicPartition) -> None:
        self._end_one(tp, committed=False)

    def _end_one(self, tp: TopicPartition, *, committed: bool) -> None:
        chosen = tp if tp in self.logs.open else self.random.choice([tp, *self.logs.open])
        self.logs.end_transaction(chosen, committed=committed)

    def pause(self, tp: TopicPartition) -> None:
        self.consumer.pause(tp)

    def resume(self, tp: TopicPartition) -> None:
        self.consumer.resume(tp)

    def move(self, tp: TopicPartition) -> None:
        self.simulation.cluster.move_leader(tp, self.random.randrange(self.kind.brokers) + 1)
        self._changing(*self.partitions)

    def sleep(self, _: TopicPartition) -> None:
        self.simulation.sleep(self.random.choice([50, 300, 1_500]))

    def limit(self, tp: TopicPartition) -> None:
        self.limited.add(tp)
        self.consumer.stop_at(tp, self.expected[tp] + self.random.randrange(40))
        self._changing(tp)

    def unlimit(self, tp: TopicPartition) -> None:
        if tp in self.limited:
            self.limited.discard(tp)
            self.consumer.stop_at(tp, None)
            self._changing(tp)

    def truncate(self, tp: TopicPartition) -> None:
        """Lose records, read or not, and get others; a sought position has no epoch to notice."""
        if tp not in self.unread_since_seek:
            self.logs.truncate(tp, self.random.randint(0, self.end_of(tp)))
            self._changing(*self.partitions)

    def recreate(self, _: TopicPartition) -> None:
        self.logs.recreate()
        self.simulation.sleep(self.random.choice([0, 100]))
        self._changing(*self.partitions)

    def swap(self, tp: TopicPartition) -> None:
        self.busy[self.random.randrange(len(self.busy))] = tp

    def poll(self, timeout_ms: int) -> None:
        for tp, records in self.consumer.poll(timeout_ms).items():
            for record in records:
                self.logs.check(tp, record.offset, record.value, self.expected[tp])
                self.expected[tp] = record.offset + 1
                self.unread_since_seek.discard(tp)
            at = self.consumer.position(tp)
            assert self.logs.rewinds[tp] or at == self.expected[tp] or self.kind.committed
            assert at is not None
            assert at <= self.logs.next_visible(tp, self.expected[tp])
        self.look()

    # --- what must hold --------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.simulation.clock.now_ms()

    def end_of(self, tp: TopicPartition) -> int:
        """The end of what a fetch returns."""
        log = self.simulation.cluster.at(tp).log
        return log.last_stable_offset if self.kind.committed else log.end_offset

    def unread(self, tp: TopicPartition) -> bool:
        end = self.end_of(tp)
        if self.kind.committed:
            expected = self.logs.next_visible(tp, self.expected[tp])
            return not expected == end == self.consumer.position(tp)
        return self.expected[tp] != end or any(each < end for each in self.logs.rewinds[tp])

    def _changing(self, *partitions: TopicPartition) -> None:
        for tp in partitions:
            self._changing_until_ms[tp] = self.now_ms + CHANGING_MS

    def look(self) -> None:
        """Check all that must hold whenever the network thread sleeps."""
        engine = self.consumer._core.engine
        for slot in engine.loop._managers.fetch._placement.slots.values():
            if slot.standing:
                assert not slot.to_check
                assert {each.state for each in slot.requested.values()} <= slot.partitions
        connected = all(link.ready for link in engine.loop._client._pool.links())
        for state in engine.subscription.assigned.values():
            self._check_wait(state, connected)

    def _check_wait(self, state: AssignedPartition, connected: bool) -> None:
        """Check that a partition with data at its leader does not wait."""
        buffer = self.consumer._core.engine.buffer
        tp, limit = state.tp, self.options["fetch_buffer_max_bytes"]
        due = (
            connected
            and state.fetchable
            and state.read_ahead < self.end_of(tp)
            and state.held_bytes == 0
            and buffer.held_bytes + buffer.queue.reserved_bytes < limit
            and self.now_ms >= max(state.retry_at_ms, self._changing_until_ms[tp])
            and state.preferred_replica is None
        )
        if not due:
            self._waits.pop(state, None)
            return
        offset, since_ms = self._waits.get(state, (-1, 0))
        if offset != state.read_ahead:
            self._waits[state] = state.read_ahead, self.now_ms
            return
        wait_ms = self.now_ms - since_ms
        self.worst_ms = max(self.worst_ms, wait_ms)
        assert wait_ms <= SOON_MS + ROUND_TRIP_MS, f"{state} waits {wait_ms} ms"


@contextmanager
def history(kind: str, seed: int) -> Iterator[History]:
    chosen = KINDS[kind]
    racks = ["b", "a"] if chosen.racks else []
    name = f"standing {kind} {seed}"
    with RepeatingSimulation(name, brokers=chosen.brokers, racks=racks) as simulation:
        yield History(simulation, chosen)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_records_arrive_once_in_order_and_soon(kind: str, seed: int) -> None:
    with history(kind, seed) as played:
        played.run()
        assert played.repeated


@pytest.mark.parametrize("broken", ["StandingFetch", "repeat_fetches"])
def test_a_defect_of_an_order_ends_neither_the_thread_nor_the_fetch(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OverflowError("no fetch can stand")

    owner = native if broken == "StandingFetch" else RepeatingTransport
    with history("moves", 1) as played, silence():
        monkeypatch.setattr(owner, broken, fail)
        played.run()
        assert played.repeated == 0
        assert played.consumer.health().alive


@pytest.mark.parametrize("first", sample(range(0, 40, 10), 1))
def test_groups_keep_all_invariants(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios of groups under faults, whose members' transports repeat fetches."""
    transports = []

    def environment(simulation: Simulation) -> tuple[Runtime, RepeatingTransport]:
        runtime, transport = RepeatingSimulation._environment(simulation)
        transports.append(transport)
        return runtime, transport

    monkeypatch.setattr(Simulation, "_environment", environment)
    with silence():
        outcomes = [run_seed(seed) for seed in range(first, first + 10)]
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert sum(transport.repeated for transport in transports) > 50
