"""ShareConsumer and AsyncShareConsumer, on the simulated cluster and on a real one."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest
from kafka.errors import GroupIdNotFoundError

from tandem_kafka import (
    AsyncShareConsumer,
    KafkaConsumer,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
)
from tandem_kafka.errors import (
    ConcurrentModificationError,
    ConsumerClosedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaConfigurationError,
    KafkaTimeoutError,
    NoGroupError,
    RecordDeserializationError,
    RecordLockLostError,
    UnsupportedVersionError,
    WakeupError,
)
from tandem_kafka.workers import AsyncShareWorkers
from tandem_kafka_testing.kafka.jars import chosen_version, release_of
from tandem_kafka_testing.served import ServedKafka
from tests.integration.brokers import Cluster
from tests.integration.share.share_members import LOCK_MS, Share, places, produce, quiet, take
from tests.integration.share.sharing import FIRST_RELEASE

pytestmark = pytest.mark.both_clusters(everyday="simulated")


# --- implicit acknowledgement -------------------------------------------------------------------


@pytest.mark.both_clusters
@pytest.mark.every_version
def test_a_loop_accepts_each_record_when_it_asks_for_the_next(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 5)
    began_ms = time.time() * 1_000 - 10  # the lock is counted on another clock
    with share() as consumer:
        seen = []
        for record in consumer:
            assert record.delivery_count == 1
            assert began_ms < record.lock_deadline_ms - LOCK_MS <= time.time() * 1_000
            seen.append(record.value)
            if len(seen) == 5:
                break
    assert seen == [b"0", b"1", b"2", b"3", b"4"]
    assert quiet(share()), "the last one was accepted at the end of the block"


def test_an_exception_releases_the_record_that_was_in_work(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 4)

    def work() -> None:
        with share() as consumer:
            for record in consumer:
                if record.offset == 2:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert places(take(share(), 2)) == [(2, 2), (3, 1)]


def test_the_end_of_a_subscription_leaves_what_was_not_handed_out_to_others(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 3)
    consumer = share()
    assert next(consumer).offset == 0
    consumer.unsubscribe()
    assert places(take(share(), 2)) == [(1, 1), (2, 1)]
    consumer.close()
    assert quiet(share()), "the first one was accepted by close()"


def test_all_records_in_work_are_released(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 3)
    consumer = share(acknowledgement="explicit")
    first, *_ = take(consumer, 3)
    first.accept()
    consumer.release_all()
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert consumer.metrics()["consumer-share-fetch-manager-metrics"]["records-released-total"] == 2
    assert places(take(share(), 2)) == [(1, 2), (2, 2)]


def test_poll_accepts_the_batch_before(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 300)
    with share(max_poll_records=40) as consumer:
        assert [record.offset for record in take(consumer, 300)] == [*range(300)]
        assert quiet(consumer)
    assert quiet(share())


def test_a_batch_is_a_sequence(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 6)
    consumer = share()
    batches: dict[TopicPartition, Any] = {}
    while not batches:
        batches = consumer.poll(500)
    [(tp, batch)] = batches.items()
    assert (tp.topic, tp.partition) == (topic, 0)
    records = list(batch)
    assert len(batch) == len(records) >= 1
    assert batch[0] == records[0] == batch[-len(batch)]
    assert batch[-1] == records[-1]
    assert batch[:2] == records[:2]
    assert batch == records
    assert repr(batch) == repr(records)
    assert hasattr(batch[0], "key")
    with pytest.raises(IndexError):
        batch[len(batch)]
    records[0].reject()
    with pytest.raises(IllegalStateError, match="acknowledged before"):
        batch[0].accept()


def test_some_records_of_a_batch_are_decided_on(kafka: Cluster, topic: str, share: Share) -> None:
    """The others are accepted."""
    produce(kafka, topic, 10)
    consumer = share()
    seen: list[Any] = []
    while len(seen) < 10:
        for batch in consumer.poll(500).values():
            for record in batch:
                seen.append(record)
                if record.offset in {3, 7}:
                    record.release()
    again = take(consumer, 2)
    assert places(again) == [(3, 2), (7, 2)]
    assert quiet(consumer)
    assert consumer.commit() == {TopicPartition(topic, 0): None}


# --- explicit acknowledgement -------------------------------------------------------------------


@pytest.mark.both_clusters
@pytest.mark.every_version
def test_each_record_is_decided_on(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 4)
    consumer = share(acknowledgement="explicit")
    seen = []
    for record in consumer:
        seen.append((record.offset, record.delivery_count))
        if record.offset == 1 and record.delivery_count < 3:
            record.release()
        elif record.offset == 2:
            record.reject()
        else:
            record.accept()
        if len(seen) == 6:
            break
    assert sorted(seen) == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert consumer.commit() == {}
    assert quiet(consumer)


@pytest.mark.both_clusters
def test_what_is_not_acknowledged_is_released_at_the_end(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 3)
    with share(acknowledgement="explicit") as consumer:
        first, *_ = take(consumer, 3)
        first.accept()
    assert places(take(share(), 2)) == [(1, 2), (2, 2)]


def test_any_thread_acknowledges_once(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 200)
    consumer = share(acknowledgement="explicit")
    records = take(consumer, 200)
    rejected = []

    def work() -> None:
        for record in records:
            try:
                record.accept()
            except IllegalStateError:
                rejected.append(record)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rejected) == 600
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert quiet(share())


@pytest.mark.full("takes long on a real broker")
@pytest.mark.every_version
def test_a_lock_that_has_ended_is_no_secret(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 1)
    consumer = share(acknowledgement="explicit")
    [record] = take(consumer, 1)
    time.sleep(LOCK_MS / 1_000 + 0.5)
    with pytest.raises(RecordLockLostError, match="it lasted 4000 ms, and was handed out 4"):
        record.accept()
    [again] = take(consumer, 1)
    assert (again.offset, again.delivery_count) == (0, 2)
    again.accept()
    assert consumer.commit() == {TopicPartition(topic, 0): None}


@pytest.mark.full("takes long on a real broker")
def test_locks_are_renewed_while_a_handler_works(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 2)
    consumer, other = share(acknowledgement="explicit", renew="auto"), None
    first, second = take(consumer, 2)
    other = share()
    second.renew()
    deadline = time.monotonic() + 2.2 * LOCK_MS / 1_000
    while time.monotonic() < deadline:
        assert quiet(other), "delivered to another member"
    first.accept()
    second.accept()
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert quiet(other)


@pytest.mark.full("takes long on a real broker")
def test_records_behind_a_slow_one_are_delivered_once(
    kafka: Cluster, topic: str, share: Share
) -> None:
    """The loop has not asked for them: brokers still have them."""
    produce(kafka, topic, 10)
    consumer = share(renew="auto")
    record = next(consumer)
    time.sleep(1.5 * LOCK_MS / 1_000)
    again = next(consumer)
    assert (record.offset, again.offset, again.delivery_count) == (0, 1, 1)
    assert consumer.commit() == {TopicPartition(topic, 0): None}


@pytest.mark.full("takes long on a real broker")
def test_a_record_is_not_renewed_for_ever(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 1)
    consumer = share(acknowledgement="explicit", renew="auto", max_processing_ms=1_000)
    [record] = take(consumer, 1)
    assert places(take(share(), 1, timeout_s=60)) == [(0, 2)]
    with pytest.raises(RecordLockLostError):
        record.accept()


# --- several members ----------------------------------------------------------------------------


@pytest.mark.both_clusters
def test_members_share_one_partition(kafka: Cluster, topic: str, share: Share) -> None:
    # Kafka 4.3 gives the rest of a batch to the member that has its beginning.
    values = [b"%d" % number for number in range(2_000)]
    kafka.admin.produce(topic, values, {"batch.num.messages": 20})
    members = [share(acknowledgement="explicit", max_poll_records=20) for _ in range(3)]
    seen: dict[int, list[int]] = {number: [] for number in range(3)}
    deadline = time.monotonic() + 60

    def work(number: int) -> None:
        while sum(map(len, seen.values())) < 2_000 and time.monotonic() < deadline:
            for batch in members[number].poll(200).values():
                for record in batch:
                    time.sleep(0.001)
                    record.accept()
                    seen[number].append(record.offset)

    threads = [threading.Thread(target=work, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(offset for each in seen.values() for offset in each) == [*range(2_000)]
    assert all(seen.values()), "each member has got some"


# --- errors -------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_deserialized(kafka: Cluster, topic: str, share: Share) -> None:
    kafka.admin.produce(topic, [b"1", b"{", b"3"])
    consumer = share(value_deserializer=json.loads)
    found, errors = [], []
    deadline = time.monotonic() + 60
    while len(errors) < 5 and time.monotonic() < deadline:
        try:
            found += [record for batch in consumer.poll(500).values() for record in batch]
        except RecordDeserializationError as error:
            errors.append(error.offset)
    assert errors == [1] * 5, "it was released, until it had no attempt left"
    assert sorted(record.value for record in found) == [1, 3]
    assert quiet(consumer)


def test_arguments_are_checked(kafka: Cluster, group: str) -> None:
    servers = {"bootstrap_servers": kafka.bootstrap()}
    with pytest.raises(NoGroupError, match="ShareConsumer needs group_id"):
        ShareConsumer("orders", **servers)
    with pytest.raises(InvalidArgumentError, match="acknowledgement must be 'implicit' or"):
        ShareConsumer("orders", group_id=group, acknowledgement="manual", **servers)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="renew must be 'off' or 'auto', got True"):
        ShareConsumer("orders", group_id=group, renew=True, **servers)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="max_processing_ms"):
        ShareConsumer("orders", group_id=group, max_processing_ms=-1, **servers)
    for option in ({"auto_offset_reset": "earliest"}, {"isolation_level": "read_committed"}):
        with pytest.raises(KafkaConfigurationError, match=r"kafka-configs\.sh .* share\."):
            ShareConsumer("orders", group_id=group, **option, **servers)


def test_a_consumer_group_is_no_share_group(
    kafka: Cluster, topic: str, share: Share, group: str
) -> None:
    with KafkaConsumer(
        topic, group_id=f"{group}-c", group_protocol="consumer", bootstrap_servers=kafka.bootstrap()
    ) as other:
        while not other.assignment():
            other.poll(100)
        consumer = share(group_id=f"{group}-c")
        with pytest.raises(GroupIdNotFoundError, match="exists and is no share group"):
            take(consumer, 1)


# --- the life of a consumer ---------------------------------------------------------------------


def test_wakeup_ends_a_poll(share: Share) -> None:
    consumer = share()
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    with pytest.raises(WakeupError):
        consumer.poll(30_000)
    timer.join()
    assert quiet(consumer)


def test_another_thread_closes_during_iteration(share: Share) -> None:
    consumer = share()
    timer = threading.Timer(0.3, consumer.close)
    timer.start()
    assert list(consumer) == []
    timer.join()
    consumer.close()
    with pytest.raises(ConsumerClosedError):
        consumer.poll()


def test_one_thread_reads_at_a_time(share: Share) -> None:
    consumer = share()
    thread = threading.Thread(target=lambda: consumer.poll(2_000))
    thread.start()
    time.sleep(0.2)
    with pytest.raises(ConcurrentModificationError):
        consumer.poll()
    thread.join()


def test_a_subscription_changes(kafka: Cluster, topic: str, share: Share) -> None:
    other = f"{topic}-other"
    kafka.admin.create_topic(other, 1)
    produce(kafka, topic, 2)
    produce(kafka, other, 1)
    consumer = share()
    assert len(take(consumer, 2)) == 2
    consumer.subscribe([other])
    assert consumer.subscription() == {other}
    [record] = take(consumer, 1)
    assert record.topic == other
    consumer.unsubscribe()
    assert consumer.subscription() == set()
    assert quiet(consumer)
    with pytest.raises(InvalidArgumentError):
        consumer.subscribe([""])


def test_iteration_ends_after_its_timeout(share: Share) -> None:
    assert list(share(consumer_timeout_ms=300)) == []


def test_a_commit_has_a_deadline(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 1)
    consumer = share(acknowledgement="explicit")
    [record] = take(consumer, 1)
    record.accept()
    with suppress(KafkaTimeoutError):  # the broker may be that fast
        consumer.commit(timeout_ms=0)
    with pytest.raises(InvalidArgumentError):
        consumer.commit(timeout_ms=-1)


def test_metrics(share: Share) -> None:
    metrics = share().metrics()
    assert metrics is not None
    assert metrics


# --- asyncio ------------------------------------------------------------------------------------


@pytest.mark.both_clusters
@pytest.mark.every_version
def test_asyncio(kafka: Cluster, topic: str, group: str) -> None:
    produce(kafka, topic, 6)

    async def read() -> list[tuple[int, int]]:
        seen = []
        async with AsyncShareConsumer(
            topic, group_id=group, bootstrap_servers=kafka.bootstrap(), acknowledgement="explicit"
        ) as consumer:
            with suppress(TimeoutError):  # cancelled before there is a record
                await asyncio.wait_for(anext(consumer), 0.001)
            async for record in consumer:
                seen.append((record.offset, record.delivery_count))
                record.accept()
                if len(seen) == 3:
                    break
            while len(seen) < 6:
                for batch in (await consumer.poll(500)).values():
                    for record in batch:
                        seen.append((record.offset, record.delivery_count))
                        record.accept()
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            assert consumer.subscription() == {topic}
            await consumer.unsubscribe()
        return seen

    assert asyncio.run(read()) == [(offset, 1) for offset in range(6)]


def test_uvloop(
    kafka: Cluster,
    topic: str,
    group: str,
    share: Share,
    network_threads: Callable[[], list[str]],
) -> None:
    uvloop = pytest.importorskip("uvloop")
    produce(kafka, topic, 50)
    seen: Counter[int] = Counter()

    async def handle(record: ShareRecord) -> None:
        await asyncio.sleep(0.001)
        seen[record.offset] += 1

    async def main() -> None:
        async with AsyncShareConsumer(
            topic, group_id=group, bootstrap_servers=kafka.bootstrap(), acknowledgement="explicit"
        ) as consumer:
            while seen.total() < 20:
                try:
                    async with asyncio.timeout(0.01):
                        polled = await consumer.poll(500, max_records=3)
                except TimeoutError:
                    continue
                for record in chain(*polled.values()):
                    seen[record.offset] += 1
                    record.accept()
            threading.Timer(0.1, produce, (kafka, topic, 1)).start()
            workers = AsyncShareWorkers(consumer, handle)
            await workers.run(until=lambda: seen.total() == 51)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert seen == dict.fromkeys(range(51), 1)
    assert not network_threads()
    assert quiet(share())


def test_asyncio_acknowledges_record_batches(kafka: Cluster, topic: str, group: str) -> None:
    pytest.importorskip("pyarrow")
    produce(kafka, topic, 4)

    async def read() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        async with AsyncShareConsumer(
            topic, group_id=group, bootstrap_servers=kafka.bootstrap(), acknowledgement="explicit"
        ) as consumer:
            while len(seen) < 5:
                batch = await consumer.poll_arrow(500)
                rows = batch.to_pylist()
                seen += [(row["offset"], row["delivery_count"]) for row in rows]
                last = [row["offset"] == 3 and row["delivery_count"] == 1 for row in rows]
                for number, releases in enumerate(last):
                    how = "release" if releases else "accept"
                    consumer.acknowledge(batch.slice(number, 1), how)
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            await consumer.release_all()
        return seen

    assert asyncio.run(read()) == [(0, 1), (1, 1), (2, 1), (3, 1), (3, 2)]


def test_asyncio_accepts_implicitly(kafka: Cluster, topic: str, group: str) -> None:
    produce(kafka, topic, 3)

    async def read(count: int) -> list[int]:
        seen: list[int] = []
        with suppress(ZeroDivisionError):
            async with AsyncShareConsumer(
                topic, group_id=group, bootstrap_servers=kafka.bootstrap()
            ) as consumer:
                async for record in consumer:
                    seen.append(record.offset)
                    if len(seen) == count:
                        raise ZeroDivisionError
        return seen

    assert asyncio.run(read(2)) == [0, 1]
    assert asyncio.run(read(2)) == [1, 2]


# --- clusters without share groups --------------------------------------------------------------


def test_a_cluster_without_share_groups(kafka: Cluster) -> None:
    del kafka
    with ServedKafka(kafka="3.9") as served:
        served.create_topic("orders", 1)
        assert_no_share_groups(served.bootstrap, "orders")


@pytest.mark.every_version
@pytest.mark.real_cluster("a release of Kafka")
def test_share_groups_need_a_release(kafka: Cluster, topic: str) -> None:
    if release_of(chosen_version()) < FIRST_RELEASE:
        assert_no_share_groups(kafka.bootstrap(), topic)
    else:
        with ShareConsumer(
            topic, group_id=f"g-{topic}", bootstrap_servers=kafka.bootstrap()
        ) as consumer:
            assert quiet(consumer)


def assert_no_share_groups(bootstrap: str, topic: str) -> None:
    with (
        ShareConsumer(topic, group_id="g", bootstrap_servers=bootstrap) as consumer,
        pytest.raises(UnsupportedVersionError, match=r"they need Kafka 4\.2, and the feature"),
    ):
        consumer.poll(5_000)
