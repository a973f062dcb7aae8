"""What workers keep, and that it does not grow."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tandem_kafka.types import TopicPartition
from tests.kafka.admin import Record
from tests.kafka.broker import KafkaCluster
from tests.spark.session import Tables, since

from tandem_kafka.spark.consumers import ConsumerCache  # isort: skip - needs pyspark, see session


@pytest.fixture
def options(kafka: KafkaCluster) -> dict[str, Any]:
    return {"bootstrap_servers": kafka.bootstrap(), "auto_offset_reset": "none"}


def until(ready: Any) -> None:
    end = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_consumer_is_kept_and_closed_when_idle(options: dict[str, Any]) -> None:
    cache = ConsumerCache(idle_ms=200)
    with cache.lend(options) as first:
        pass
    assert len(cache) == 1
    with cache.lend(options) as second:
        assert second is first
    until(lambda: len(cache) == 0)
    with cache.lend(options) as third:
        assert third is not first
    until(lambda: len(cache) == 0)


def test_a_consumer_that_failed_is_not_kept(options: dict[str, Any]) -> None:
    cache = ConsumerCache()
    with pytest.raises(ZeroDivisionError), cache.lend(options):
        1 / 0  # noqa: B018
    assert len(cache) == 0


def test_a_fork_begins_with_nothing(options: dict[str, Any]) -> None:
    cache = ConsumerCache(idle_ms=200)
    with cache.lend(options):
        pass
    child = os.fork()
    if child == 0:
        try:
            with cache.lend(options) as consumer:
                there = consumer.topics() is not None
            # Spark collects after each task: it does not look through all modules then.
            os._exit(0 if there and gc.get_freeze_count() > 10_000 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    until(lambda: len(cache) == 0)


def test_nothing_is_asked_for_beyond_the_range(
    kafka: KafkaCluster, topic: str, options: dict[str, Any]
) -> None:
    """And a parked consumer is silent."""
    kafka.admin.produce(topic, [b"x" * 1_000] * 20_000)
    cache = ConsumerCache(idle_ms=60_000)
    tp = TopicPartition(topic, 0)
    with cache.lend({**options, "max_partition_fetch_bytes": 20_000}) as consumer:
        consumer.assign([tp])
        consumer.stop_at(tp, 500)
        consumer.seek(tp, 0)
        while consumer.position(tp) < 500:
            consumer.poll_arrow(1_000)

        def fetches() -> float:
            return float(consumer.metrics()["consumer-fetch-manager-metrics"]["fetch-total"])

        before = fetches()
    assert before * 20 < 2_000
    with cache.lend({**options, "max_partition_fetch_bytes": 20_000}) as again:
        assert again is consumer
        assert fetches() == before
        again.close()
    cache._parked.clear()


def workers() -> Iterator[Path]:
    """The Python workers of the session: children of the JVM that this process began."""
    ours = {os.getpid()}
    for _ in range(4):
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) not in ours:
                try:
                    parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                    command = (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                if parent in ours:
                    ours.add(int(folder.name))
                    if b"pyspark.daemon" in command or b"source_runner" in command:
                        yield folder


class Held(NamedTuple):
    """What the workers have, all together."""

    processes: int
    threads: int
    descriptors: int
    kilobytes: int


def held() -> Held:
    folders = list(workers())
    threads = descriptors = kilobytes = 0
    for folder in folders:
        try:
            threads += len(list((folder / "task").iterdir()))
            descriptors += len(list((folder / "fd").iterdir()))
            memory = (folder / "smaps_rollup").read_text()
        except OSError:
            continue
        kilobytes += int(memory.partition("Anonymous:")[2].split()[0])
    return Held(len(folders), threads, descriptors, kilobytes)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.partitions(2)
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@since(4, 2, "rate limits")
def test_200_batches_leave_no_more_than_20(kafka: KafkaCluster, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(402)])
    query = (
        tables.stream(topic, maxOffsetsPerTrigger=2)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tables.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    commits = tables.folder / "checkpoint" / "commits"
    tables.until(query, (commits / "20").exists)
    first = held()
    tables.until(query, (commits / "200").exists, patience_s=480)
    last = held()
    assert query.awaitTermination(60)
    print(f"after 20 batches {first}, after 200 {last}")
    assert last.processes <= first.processes + 1
    assert last.threads <= first.threads + 4
    assert last.descriptors <= first.descriptors + 8
    # A process more is one that has imported everything.
    started = (last.processes - first.processes) * 100_000
    assert last.kilobytes <= first.kilobytes + max(0, started) + 16_000


@pytest.mark.partitions(2)
@since(4, 2, "rate limits")
def test_a_worker_that_is_killed(kafka: KafkaCluster, topic: str, tables: Tables) -> None:
    """Spark repeats the batch, on a new worker."""
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(100)])
    tables.finish(tables.stream(topic, maxOffsetsPerTrigger=50))
    for folder in workers():
        command = (folder / "cmdline").read_bytes()
        parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        if b"pyspark.daemon" in command and _is_daemon(int(parent)):
            os.kill(int(folder.name), signal.SIGKILL)
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(100)])
    tables.finish(tables.stream(topic, maxOffsetsPerTrigger=50))
    assert [row.offset for row in tables.written()] == [*range(100), *range(100)]


def _is_daemon(pid: int) -> bool:
    return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
