"""Fetches that the native transport repeats by itself, on the simulated cluster over TCP."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaProtocolError, WakeupError
from tandem_kafka.runtime import Random
from tandem_kafka.runtime.native import native_available
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.served import ServedKafka
from tests.integration.polling import ENDLESS_MS
from tests.integration.reading.test_loopback import (
    FAULTS,
    PARTITIONS,
    RECORDS,
    ROUNDS,
    TOPIC,
    consumer,
    create,
    garble,
    produce,
)
from tests.waiting import until

pytestmark = pytest.mark.skipif(not native_available, reason="the native transport repeats them")

SEEDS = range(4)
STEP = PARTITIONS * 2
#: A topic whose many partitions are quiet, but for bursts.
DOZING, MANY = "dozing", 240


def buffer_of(reader: KafkaConsumer) -> FetchBuffer:
    return reader._core.engine.buffer


def repeats(reader: KafkaConsumer) -> int:
    return buffer_of(reader).queue.repeated[0]


@contextmanager
def assigned(loopback: ServedKafka, **options: Any) -> Iterator[KafkaConsumer]:
    """A consumer without a group, of all partitions, that has read everything."""
    loopback.perform(create)
    loopback.perform(lambda cluster: produce(cluster, 0, RECORDS))
    with consumer(loopback, group_id=None, **options) as reader:
        read_until(reader, defaultdict(list), RECORDS)
        yield reader


def read_until(reader: KafkaConsumer, read: dict[int, list[int]], total: int) -> None:
    for _ in until(lambda: sum(map(len, read.values())) >= total):
        for tp, records in reader.poll(timeout_ms=100).items():
            read[tp.partition] += [int(record.value or b"") for record in records]


def trickle(
    loopback: ServedKafka, reader: KafkaConsumer, begin: int, end: int
) -> dict[int, list[int]]:
    """Produce a few records at a time, and read them before the next."""
    read: dict[int, list[int]] = defaultdict(list)
    for at in range(begin, end, STEP):
        loopback.perform(lambda cluster, at=at: produce(cluster, at, at + STEP))
        read_until(reader, read, at + STEP - begin)
    return read


def numbers(begin: int, end: int) -> dict[int, list[int]]:
    return {tp: [n for n in range(begin, end) if n % PARTITIONS == tp] for tp in range(PARTITIONS)}


def test_a_steady_stream_needs_no_python_on_the_network_thread() -> None:
    with ServedKafka() as loopback, assigned(loopback) as reader:
        end = RECORDS + 50 * STEP
        assert trickle(loopback, reader, RECORDS, end) == numbers(RECORDS, end)
        assert repeats(reader) > 40


def test_positions_lag_and_metrics_are_exact() -> None:
    with ServedKafka() as loopback, assigned(loopback) as reader:
        trickle(loopback, reader, RECORDS, RECORDS + 20 * STEP)
        assert repeats(reader) > 0
        ends = reader.end_offsets(list(reader.assignment()))
        for tp, end in ends.items():
            assert reader.position(tp) == end
            assert reader.highwater(tp) == end
        metrics = reader.metrics()
        fetching = metrics["consumer-fetch-manager-metrics"]
        assert fetching["records-consumed-total"] == RECORDS + 20 * STEP
        assert fetching["fetch-total"] >= repeats(reader)
        assert metrics["consumer-metrics"]["request-total"] > repeats(reader)
        for tp in ends:
            group = f"consumer-fetch-manager-metrics.topic-{TOPIC}.partition-{tp.partition}"
            assert metrics[group]["records-lag"] == 0
        assert buffer_of(reader).held_bytes == 0
        for state in reader._core.engine.subscription.assigned.values():
            assert state.held_bytes == 0


def test_iteration_profits_alike() -> None:
    with ServedKafka() as loopback, assigned(loopback, consumer_timeout_ms=20_000) as reader:
        for at in range(RECORDS, RECORDS + 20 * STEP, STEP):
            loopback.perform(lambda cluster, at=at: produce(cluster, at, at + STEP))
            assert sorted(int(next(reader).value or b"") for _ in range(STEP)) == list(
                range(at, at + STEP)
            )
        assert repeats(reader) > 10


def test_nothing_is_repeated_without_a_session() -> None:
    options = {"enable_incremental_fetch_sessions": False}
    with ServedKafka() as loopback, assigned(loopback, **options) as reader:
        end = RECORDS + 10 * STEP
        assert trickle(loopback, reader, RECORDS, end) == numbers(RECORDS, end)
        assert repeats(reader) == 0


def test_at_debug_each_request_is_logged_also_a_repeated_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="tandem_kafka.network.connection")
    with ServedKafka() as loopback, assigned(loopback) as reader:
        trickle(loopback, reader, RECORDS, RECORDS + 20 * STEP)
        repeated = repeats(reader)
    assert repeated > 10
    fetches = [line for line in caplog.messages if ": FetchRequest v" in line]
    ends = Counter(
        re.sub(r".*request \d+: (response|no response|sent).*", r"\1", x) for x in fetches
    )
    assert ends["sent"] == ends["response"] + ends["no response"] > repeated


def test_a_wakeup_ends_a_wait_in_native_code() -> None:
    with ServedKafka() as loopback, assigned(loopback) as reader:
        trickle(loopback, reader, RECORDS, RECORDS + 10 * STEP)
        timer = threading.Timer(0.2, reader.wakeup)
        timer.start()
        with pytest.raises(WakeupError):
            reader.poll(timeout_ms=ENDLESS_MS)
        timer.join()


def test_paused_partitions_bring_nothing_and_go_on_where_they_were() -> None:
    with ServedKafka() as loopback, assigned(loopback) as reader:
        middle, end = RECORDS + 10 * STEP, RECORDS + 20 * STEP
        trickle(loopback, reader, RECORDS, middle)
        paused = TopicPartition(TOPIC, 1)
        reader.pause(paused)
        read: dict[int, list[int]] = defaultdict(list)
        loopback.perform(lambda cluster: produce(cluster, middle, end))
        expected = numbers(middle, end)
        read_until(reader, read, len(expected[0]) + len(expected[2]))
        assert 1 not in read
        reader.resume(paused)
        read_until(reader, read, end - middle)
        assert read == expected


def create_dozing(cluster: SimCluster) -> None:
    cluster.create_topic(DOZING, MANY)


def burst(cluster: SimCluster) -> None:
    for number in range(MANY):
        tp = TopicPartition(DOZING, number)
        cluster.produce(tp, b"%d" % cluster.at(tp).log.end_offset)


def spread(cluster: SimCluster) -> None:
    """Give each broker a rack; one partition is then read from a follower, by a lease."""
    cluster.racks = ("here", "there")
    for broker, rack in zip(cluster.brokers.values(), cluster.racks, strict=True):
        broker.rack = rack
    for number in range(PARTITIONS):
        cluster.move_leader(TopicPartition(TOPIC, number), 1 if number else 2)


#: What the consumer is like, beside the faults.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "leases": {"client_rack": "here", "metadata_max_age_ms": 500},
    "bursts": {"max_partition_fetch_bytes": 5_000, "fetch_buffer_max_bytes": 100_000},
}


@pytest.mark.full("takes long on a real broker")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_under_faults_seeks_and_pauses_records_are_neither_lost_nor_repeated(
    seed: int, kind: str
) -> None:
    """After a seek, records are read again from there; the others come exactly once."""
    random = Random(seed)
    bursts = 0
    with ServedKafka(brokers=2, seed=seed, faults=FAULTS) as loopback:
        loopback.perform(create)
        if kind == "leases":
            loopback.perform(spread)
        with consumer(loopback, group_id=None, **KINDS[kind]) as reader:
            if kind == "bursts":
                loopback.perform(create_dozing)
                reader.subscribe([TOPIC, DOZING])
            follower = Follower(reader)
            for at in range(0, ROUNDS * RECORDS, STEP):
                if at == ROUNDS * RECORDS // 2:
                    loopback.perform(lambda cluster: garble(cluster, Random(seed)))
                if kind == "bursts" and random.random() < 0.05:
                    loopback.perform(burst)
                    bursts += 1
                loopback.perform(lambda cluster, at=at: produce(cluster, at, at + STEP))
                follower.follow(20)
                if random.random() < 0.2:
                    follower.disturb(random)
            loopback.cause("heal")
            reader.resume(*reader.assignment())
            count = ROUNDS * RECORDS + bursts * MANY
            for _ in until(lambda: sum(follower.next.values()) >= count, lambda: follower.next):
                follower.follow(100)


class Follower:
    """Reads, and checks that each partition goes on exactly where it must."""

    def __init__(self, reader: KafkaConsumer) -> None:
        self._reader = reader
        #: The offset of the next record, by partition.
        self.next: dict[TopicPartition, int] = defaultdict(int)

    def follow(self, timeout_ms: int) -> None:
        """Read once."""
        try:
            polled = self._reader.poll(timeout_ms=timeout_ms)
        except KafkaProtocolError:
            return  # a garbled response, which poll() reports; the next one goes on
        for tp, records in polled.items():
            first = self.next[tp]
            assert [record.offset for record in records] == list(range(first, first + len(records)))
            assert [int(record.value or b"") for record in records] == [
                record.offset * PARTITIONS + tp.partition if tp.topic == TOPIC else record.offset
                for record in records
            ]
            assert not self._reader.paused() & {tp}
            self.next[tp] = first + len(records)
            assert self._reader.position(tp) == self.next[tp]

    def disturb(self, random: Random) -> None:
        """Seek, pause or resume a partition."""
        assignment = sorted(self._reader.assignment())
        if not assignment:
            return
        tp = random.choice(assignment)
        kind = random.choice(["seek", "pause", "resume"])
        if kind == "seek" and self.next[tp]:
            self.next[tp] = random.randrange(self.next[tp])
            self._reader.seek(tp, self.next[tp])
        elif kind == "pause":
            self._reader.pause(tp)
        elif kind == "resume":
            self._reader.resume(tp)
