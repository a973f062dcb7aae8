"""The objects that workers keep, and that their number does not grow."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.spark.processes import connections, runs_tasks, workers
from packages.spark.tests.session import Tables, since
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.sources import ROOT

from pyspark_tandem_kafka.consumers import ConsumerCache  # isort: skip - needs pyspark, see session
from tests.waiting import wait_until


@pytest.fixture
def options(kafka: RealKafka) -> dict[str, Any]:
    return {"bootstrap_servers": kafka.bootstrap(), "auto_offset_reset": "none"}


def test_a_consumer_is_kept_and_closed_when_idle(options: dict[str, Any]) -> None:
    cache = ConsumerCache(idle_ms=500)
    with cache.lend(options) as first:
        pass
    assert len(cache) == 1
    with cache.lend(options) as second:
        assert second is first
    wait_until(lambda: len(cache) == 0)
    with cache.lend(options) as third:
        assert third is not first
    wait_until(lambda: len(cache) == 0)


def test_a_consumer_that_failed_is_not_kept(options: dict[str, Any]) -> None:
    cache = ConsumerCache()
    with pytest.raises(ZeroDivisionError), cache.lend(options):
        1 / 0  # noqa: B018
    assert len(cache) == 0


def test_a_fork_has_no_consumers(options: dict[str, Any]) -> None:
    cache = ConsumerCache(idle_ms=200)
    with cache.lend(options):
        pass
    child = os.fork()
    if child == 0:
        try:
            with cache.lend(options) as consumer:
                there = consumer.topics() is not None
            # Spark collects garbage after each task; frozen modules are skipped.
            os._exit(0 if there and gc.get_freeze_count() > 10_000 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    wait_until(lambda: len(cache) == 0)


def test_no_fetch_goes_beyond_the_range(
    kafka: RealKafka, topic: str, options: dict[str, Any]
) -> None:
    """A parked consumer sends nothing."""
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


class Held(NamedTuple):
    """The resources of all workers together."""

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


#: Compares threads and sockets before and after the imports; PySpark's and Arrow's own are ignored.
IMPORTS = """
import gc, importlib, os, pkgutil, stat, sys
import confluent_kafka, pandas, pyarrow.compute, pyspark.sql.functions, pyspark.sql.datasource

def held():
    sockets = 0
    for descriptor in range(1024):
        try:
            sockets += stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        except OSError:
            pass
    return len(os.listdir("/proc/self/task")), sockets

before = held()
import pyspark_tandem_kafka
assert held() == before, (before, held())
assert "tandem_kafka.consumer.consumer" not in sys.modules, "made when it is used"
for each in pkgutil.iter_modules(pyspark_tandem_kafka.__path__, "pyspark_tandem_kafka."):
    importlib.import_module(each.name)
assert held() == before, (before, held())
from tandem_kafka import KafkaConsumer
from pyspark_tandem_kafka import consumers, producing
clients = (KafkaConsumer, confluent_kafka.Producer, confluent_kafka.Consumer)
assert not [each for each in gc.get_objects() if issubclass(type(each), clients)]
assert not consumers.cache and not producing._producers
print("nothing")
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_imports_start_nothing() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.stdout.strip() == "nothing", ran.stderr


@pytest.mark.full("takes long with Spark")
@pytest.mark.partitions(2)
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@since(4, 2, "rate limits")
def test_batches_share_consumers(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """Thirty batches of two tasks need no more connections than the first ones."""
    port = int(kafka.bootstrap().rpartition(":")[2])
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(60)])
    of_other_tests = connections(port)
    query = tables.begin(
        # A configuration for which no other test has left consumers.
        tables.stream(topic, maxOffsetsPerTrigger=2, kafka__client__id=topic),
        trigger={"availableNow": True},
    )
    commits = tables.folder / "out-checkpoint" / "commits"
    before: set[tuple[str, str]] = set()
    seen: set[tuple[str, str]] = set()

    def finished() -> bool:
        seen.update(connections(port) - of_other_tests)
        if not (commits / "3").exists():
            before.update(seen)
        return not query.isActive

    tables.until(query, finished)
    assert len(list(commits.glob("[0-9]*"))) == 30
    processes = {process for process, _ in seen}
    print(f"{len(seen)} connections of {len(processes)} processes, {len(before)} by the 4th batch")
    assert before
    # Each process has one to the bootstrap server and one to the leader.
    assert len(seen) <= 2 * len(processes)
    assert len(seen) <= len(before) + 4


@pytest.mark.full("takes long with Spark")
@pytest.mark.timeout(600)
@pytest.mark.partitions(2)
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@since(4, 2, "rate limits")
def test_200_batches_leave_no_more_resources_than_20(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
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
    # One more process is allowed.
    started = (last.processes - first.processes) * 100_000
    assert last.kilobytes <= first.kilobytes + max(0, started) + 16_000


@pytest.mark.partitions(2)
@since(4, 2, "rate limits")
def test_a_killed_worker(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """Spark repeats the batch on a new worker."""
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(100)])
    tables.finish(tables.stream(topic, maxOffsetsPerTrigger=50))
    for folder in workers():
        if runs_tasks(folder):
            os.kill(int(folder.name), signal.SIGKILL)
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(100)])
    tables.finish(tables.stream(topic, maxOffsetsPerTrigger=50))
    assert [row.offset for row in tables.written()] == [*range(100), *range(100)]
