"""Orders from Kafka with PySpark: totals per minute back to Kafka, every order into Parquet files.

    python examples/spark_orders.py --bootstrap localhost:9092 --topic orders --folder orders

writes orders to the topic, starts a Spark job that reads them, kills it with all its workers while
it is at work, starts it again, and checks that the totals are exact to the cent.

The files are written exactly once. Kafka's are written at least once: the same minute may be there
twice, with the same total, so the last one of each minute is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.dataset
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from tandem_kafka import KafkaConsumer, TopicPartition

ORDERS = 5_000
PER_BATCH = 500
MINUTE_MS = 60_000


def run_job(bootstrap: str, topic: str, folder: Path) -> None:
    """Read what is there, to the end: this is the job that a cluster would run."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    raw = (
        spark.readStream.format("tandem_kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PER_BATCH)
        .load()
    )
    parsed = f.from_json(f.col("value").cast("string"), "id long, cents long, at_ms long")
    orders = raw.select(parsed.alias("order")).select(
        "order.*", f.timestamp_millis("order.at_ms").alias("at")
    )
    per_minute = (
        orders.withWatermark("at", "2 minutes")
        .groupBy(f.window("at", "1 minute").alias("minute"))
        .agg(f.sum("cents").alias("cents"))
    )
    to_files = (
        orders.writeStream.format("parquet")
        .option("path", str(folder / "orders"))
        .option("checkpointLocation", str(folder / "orders-checkpoint"))
    )
    to_kafka = (
        per_minute.select(
            f.unix_millis("minute.start").cast("string").alias("key"),
            f.col("cents").cast("string").alias("value"),
        )
        .writeStream.format("tandem_kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"{topic}-totals")
        .option("checkpointLocation", str(folder / "totals-checkpoint"))
    )
    running = [start_stream(each) for each in (to_files, to_kafka)]
    for query in running:
        query.awaitTermination()
    spark.stop()


def start_stream(writer: DataStreamWriter) -> StreamingQuery:
    """Start a stream and wait until it reads: two that start at once can spoil what they share.

    "Several streams in one job" in docs/spark.md says what that is.
    """
    query = writer.trigger(availableNow=True).start()
    while query.isActive and not query.recentProgress:
        time.sleep(0.05)
    return query


def produce_orders(bootstrap: str, topic: str) -> Counter[int]:
    """Write orders of an hour in the order of their time; return the cents of each minute."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    begin_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS - 3 * 60 * MINUTE_MS
    totals: Counter[int] = Counter()
    for number in range(ORDERS):
        at_ms = begin_ms + number * 60 * MINUTE_MS // ORDERS
        cents = random.randint(1, 100_000)  # noqa: S311 - not a secret
        totals[at_ms // MINUTE_MS * MINUTE_MS] += cents
        order = {"id": number, "cents": cents, "at_ms": at_ms}
        producer.produce(topic, json.dumps(order), partition=0)
        producer.poll(0)
    # A minute is final when a later order has moved the watermark beyond it.
    last = {"id": -1, "cents": 0, "at_ms": begin_ms + 120 * MINUTE_MS}
    producer.produce(topic, json.dumps(last), partition=0)
    check(producer.flush(30) == 0, "orders were not delivered")
    return totals


def start_job(arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start this program once more, as the job."""
    command = [sys.executable, __file__, "--job"]
    for name in ("bootstrap", "topic", "folder"):
        command += [f"--{name}", str(getattr(arguments, name))]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603


def kill_at_work(job: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until it has finished a few batches of either kind, and kill it."""
    kinds = ("orders-checkpoint", "totals-checkpoint")
    while job.poll() is None:
        done = [len(list((folder / kind / "commits").glob("[0-9]*"))) for kind in kinds]
        if min(done) >= 3:
            os.killpg(job.pid, signal.SIGKILL)
            print(f"killed after {done[0]} and {done[1]} batches", flush=True)
        time.sleep(0.01)


def read_totals(bootstrap: str, topic: str) -> dict[int, int]:
    """Read the totals back: the last one of each minute."""
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends, found = consumer.end_offsets(partitions), {}
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for records in consumer.poll(timeout_ms=1_000).values():
                found.update({int(record.key): int(record.value) for record in records})
    return found


def check(condition: bool, otherwise: str) -> None:
    """End the program with a text unless a condition holds."""
    if not condition:
        sys.exit(otherwise)


def main() -> None:
    """Run the job, or all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--folder", type=Path, default=Path("spark-orders"))
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.bootstrap, arguments.topic, arguments.folder)
        return
    expected = produce_orders(arguments.bootstrap, arguments.topic)
    kill_at_work(start_job(arguments), arguments.folder)
    check(start_job(arguments).wait() == 0, "the job failed")

    sink_log = arguments.folder / "orders" / "_spark_metadata"
    files = sorted(set(_committed_files(sink_log)))
    ids = pyarrow.dataset.dataset(files).to_table(columns=["id"])["id"].to_pylist()
    check(sorted(ids) == list(range(-1, ORDERS)), f"{len(ids)} orders in the files")
    found = read_totals(arguments.bootstrap, f"{arguments.topic}-totals")
    check(found == dict(expected), "the totals differ")
    print(f"{ORDERS} orders, {len(found)} minutes, {sum(found.values())} cents: all exact")


def _committed_files(log: Path) -> list[str]:
    """Return the files that count: Spark names them in its log, a kill may leave others."""
    lines = [
        line
        for entry in log.iterdir()
        if not entry.name.startswith(".")
        for line in entry.read_text().splitlines()
        if line.startswith("{")
    ]
    return [json.loads(line)["path"].removeprefix("file://") for line in lines]


if __name__ == "__main__":
    main()
