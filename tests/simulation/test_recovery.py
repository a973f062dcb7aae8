"""The time until reading continues after outages of brokers and connections."""

from __future__ import annotations

import statistics
from typing import Self

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.tier import seeds

PARTITIONS = [TopicPartition("orders", number) for number in range(6)]
#: After this time, a real cluster notices that a broker is gone (`broker.session.timeout.ms`).
ELECTION_MS = 9_000


class Reading:
    """Six partitions on three brokers, each with several new records per second."""

    def __init__(self, seed: object, **options: object) -> None:
        self.simulation = Simulation(seed, brokers=3, trace_lines=2_000)
        create_topic(self.simulation, "orders", len(PARTITIONS))
        for tp in PARTITIONS:
            self.simulation.cluster.move_leader(tp, 1 + tp.partition % 3)
        self.consumer = self.simulation.consumer(auto_offset_reset="earliest", **options)
        self.consumer.assign(PARTITIONS)
        self.read_ms = dict.fromkeys(PARTITIONS, self.now_ms)
        self.next = dict.fromkeys(PARTITIONS, 0)
        self._silence_ms = dict.fromkeys(PARTITIONS, 0)
        self.read_for_ms(5_000)
        self._silence_ms = dict.fromkeys(PARTITIONS, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.simulation.__exit__(*failure)

    @property
    def now_ms(self) -> int:
        return self.simulation.clock.now_ms()

    def read_for_ms(self, duration_ms: int) -> None:
        """Produce and read for a while."""
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            for tp in PARTITIONS:
                leader = self.simulation.cluster.at(tp).leader
                if leader is not None and self.simulation.cluster.brokers[leader].up:
                    produce(self.simulation, tp, 1)
            batch = self.consumer.poll(200)
            for tp, records in batch.items():
                self.next[tp] = records[-1].offset + 1
                since_ms = self.now_ms - self.read_ms[tp]
                self._silence_ms[tp] = max(self._silence_ms[tp], since_ms)
                self.read_ms[tp] = self.now_ms
            self.simulation.sleep(100)

    def silence_ms(self, tp: TopicPartition) -> int:
        """Return the longest time without a record of a partition."""
        return max(self._silence_ms[tp], self.now_ms - self.read_ms[tp])

    def until_all_read(self, within_ms: int = 120_000) -> int:
        """Return how long it takes until new records of every partition are read."""
        began_ms = self.now_ms
        cluster = self.simulation.cluster
        ends = {tp: cluster.at(tp).log.end_offset for tp in PARTITIONS}
        while any(self.next[tp] <= ends[tp] for tp in PARTITIONS):
            assert self.now_ms < began_ms + within_ms, f"silent: {self.read_ms}"
            self.read_for_ms(100)
        return self.now_ms - began_ms

    def led_by(self, node_id: int) -> list[TopicPartition]:
        return [tp for tp in PARTITIONS if self.simulation.cluster.at(tp).leader == node_id]

    def elect(self, *gone: int) -> None:
        """The cluster notices; the remaining brokers take over the partitions."""
        left = [n for n in self.simulation.cluster.brokers if n not in gone]
        for node_id in gone:
            for tp in self.led_by(node_id):
                self.simulation.cluster.move_leader(tp, left[tp.partition % len(left)])


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_half_open_connections_are_noticed_long_before_the_request_timeout(seed: int) -> None:
    with Reading(f"half open {seed}") as reading:
        reading.simulation.network.freeze(reading.consumer._core.engine.transport)
        assert reading.until_all_read() < 8_000


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_half_open_connections_are_noticed_equally_fast_each_time(seed: int) -> None:
    """One connection of a broker may be tested just after its others were closed."""
    with Reading(f"half open again {seed}") as reading:
        for _ in range(4):
            reading.read_for_ms(5_000 + 700 * seed)
            reading.simulation.network.freeze(reading.consumer._core.engine.transport)
            assert reading.until_all_read() < 8_000


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_a_hung_broker_delays_reading_only_until_the_election(seed: int) -> None:
    with Reading(f"hung {seed}") as reading:
        lost = reading.led_by(1)
        reading.simulation.cluster.pause(1)
        reading.read_for_ms(ELECTION_MS)
        reading.elect(1)
        reading.read_for_ms(20_000)
        for tp in PARTITIONS:
            bound_ms = ELECTION_MS + 1_500 if tp in lost else 1_500
            assert reading.silence_ms(tp) <= bound_ms, (
                f"{tp} was silent for {reading.silence_ms(tp)} ms"
            )


@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("way", ["assign", "subscribe"])
def test_a_hung_broker_delays_a_consumer_that_reads_from_it_alone(seed: int, way: str) -> None:
    """No response and no heartbeat of another broker wakes the managers."""
    with Simulation(f"only leader {seed}", brokers=3, trace_lines=2_000) as simulation:
        create_topic(simulation, "orders", 1)
        tp = PARTITIONS[0]
        simulation.cluster.move_leader(tp, 2)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        if way == "assign":
            consumer.assign([tp])
        else:
            consumer.subscribe(["orders"])
        produce(simulation, tp, 1)
        assert read_for(consumer, 8_000 + 100 * seed) == 1
        simulation.cluster.pause(2)
        assert read_for(consumer, ELECTION_MS) == 0
        simulation.cluster.move_leader(tp, 3)
        produce(simulation, tp, 1)
        assert read_for(consumer, 1_500) == 1


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_a_network_that_accepts_and_swallows_delays_reading_by_ten_seconds_at_most(
    seed: int,
) -> None:
    with Reading(f"swallowed {seed}") as reading:
        network = reading.simulation.network
        network.silent = {broker.address for broker in reading.simulation.cluster.brokers.values()}
        network.freeze(reading.consumer._core.engine.transport)
        reading.read_for_ms(90_000 + 3_000 * seed)
        network.silent.clear()
        assert reading.until_all_read() < 12_500  # with the backoff, and until it is noticed


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_a_lookup_does_not_wait_for_a_broker_that_accepts_and_says_nothing(seed: int) -> None:
    with Simulation(f"first contact {seed}", brokers=3, trace_lines=2_000) as simulation:
        create_topic(simulation, "orders", 1)
        simulation.cluster.pause(1 + seed % 3)
        consumer = simulation.consumer(bootstrap_timeout_ms=0)
        began_ms = simulation.clock.now_ms()
        assert consumer.topics() == {"orders"}
        assert simulation.clock.now_ms() - began_ms < 4_500


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_a_killed_leader_delays_reading_by_a_second_after_the_election(seed: int) -> None:
    with Reading(f"killed {seed}") as reading:
        lost = reading.led_by(2)
        reading.simulation.cluster.stop(2)
        reading.read_for_ms(ELECTION_MS)
        reading.elect(2)
        reading.read_for_ms(20_000)
        assert max(reading.silence_ms(tp) for tp in lost) <= ELECTION_MS + 1_000
        assert max(reading.silence_ms(tp) for tp in PARTITIONS if tp not in lost) <= 1_000


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_with_two_of_three_brokers_gone_the_third_is_read_as_soon_as_it_leads(seed: int) -> None:
    with Reading(f"two gone {seed}") as reading:
        for node_id in (1, 2):
            reading.simulation.cluster.stop(node_id)
        reading.read_for_ms(ELECTION_MS)
        reading.elect(1, 2)
        assert reading.until_all_read() < 1_500
        reading.read_for_ms(36_000)
        for node_id in (1, 2):
            reading.simulation.cluster.start(node_id)
        for tp in PARTITIONS:
            reading.simulation.cluster.move_leader(tp, 1 + tp.partition % 3)
        assert reading.until_all_read() < 1_500


def test_reading_continues_within_a_second_after_a_minute_without_brokers() -> None:
    took_ms = []
    for seed in range(9):
        with Reading(f"minute {seed}") as reading:
            for node_id in (1, 2, 3):
                reading.simulation.cluster.stop(node_id)
            reading.read_for_ms(60_000)
            for node_id in (1, 2, 3):
                reading.simulation.cluster.start(node_id)
            took_ms.append(reading.until_all_read())
    assert statistics.median(took_ms) <= 1_500, took_ms
    assert max(took_ms) <= 3_000, took_ms


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_requests_for_any_broker_do_not_wait_for_a_silent_one(seed: int) -> None:
    with Reading(f"any {seed}") as reading:
        reading.simulation.cluster.pause(1 + seed % 3)
        for _ in range(5):
            began_ms = reading.now_ms
            assert "orders" in reading.consumer.topics()
            assert reading.now_ms - began_ms < 3_500
        began_ms = reading.now_ms
        reading.consumer.topics()
        assert reading.now_ms - began_ms < 100, "by now it is known to be silent"


def read_for(consumer: KafkaConsumer, duration_ms: int) -> int:
    until_ms, count = consumer._core.clock.now_ms() + duration_ms, 0
    while consumer._core.clock.now_ms() < until_ms:
        count += consumer.poll(1_000).count
    return count


@pytest.mark.parametrize("slow_ms", [4_000, 7_000, 12_000])
def test_a_slow_broker_is_still_read(slow_ms: int) -> None:
    """Each response is slow, also on a new connection."""
    with Simulation(f"slow {slow_ms}", trace_lines=2_000) as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(auto_offset_reset="earliest", bootstrap_timeout_ms=0)
        consumer.assign([PARTITIONS[0]])
        produce(simulation, PARTITIONS[0], 1)
        assert read_for(consumer, 10_000) == 1
        network = simulation.network
        network.slow[simulation.cluster.brokers[1].address] = slow_ms // 2
        produce(simulation, PARTITIONS[0], 1)
        assert read_for(consumer, 120_000) == 1
        network.slow.clear()


@pytest.mark.parametrize("seed", seeds(2, 10))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_hung_coordinator_is_named_and_given_up_alike_in_both_protocols(
    seed: int, protocol: str
) -> None:
    with Simulation(f"hung coordinator {seed}", brokers=3, trace_lines=2_000) as simulation:
        (tp,) = create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", group_id="readers", group_protocol=protocol)
        while not consumer.assignment():
            consumer.poll(100)
        hung = consumer._core.engine.group.coordinator
        assert hung is not None
        simulation.cluster.move_leader(tp, hung.node_id % 3 + 1)
        read_for(consumer, 10_000 + simulation.random.randrange(5_000))
        simulation.cluster.pause(hung.node_id)
        brokers, searches = simulation.cluster.brokers.values(), "FindCoordinatorRequest"
        before = sum(each.requests.get(searches, 0) for each in brokers)
        began_ms, named_ms = simulation.clock.now_ms(), 0
        while sum(each.requests.get(searches, 0) for each in brokers) == before:
            consumer.poll(20)
            took_ms = simulation.clock.now_ms() - began_ms
            if not named_ms and any("has not responded" in t for t in consumer.health().troubles):
                named_ms = took_ms
        # The next heartbeat is due within five seconds; then two, and twice six.
        assert 0 < named_ms < 5_000 + 2_500
        assert took_ms < 5_000 + 12_500
