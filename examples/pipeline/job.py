"""Reads orders from Kafka, checks, deduplicates, joins and sums them: a template for a job.

    python examples/pipeline/job.py --bootstrap localhost:9092 --master 'local[2]'

Each step is a function from DataFrame to DataFrame. README.md beside this file says what to change.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

from progress import ProgressLog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from settings import Settings

from pyspark_tandem_kafka.decoding import from_avro, from_json
from pyspark_tandem_kafka.progress import LagListener

ORDER: Final = "id bigint, customer string, cents bigint, at_ms bigint"
ORDER_AVRO: Final = Path(__file__).with_name("order.avsc")
CUSTOMER: Final = "country string"

#: An event time may be this far ahead of the record's timestamp. Without a limit, a single order
#: from the year 2100 would move the watermark there, and all other orders would be late.
AHEAD: Final = "INTERVAL 1 HOUR"


# Reading


def read_orders(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read the orders as a stream of Kafka records, from the beginning of the topic."""
    reader = (
        spark.readStream.format("tandem_kafka")
        .options(**settings.kafka_options)
        .option("subscribe", settings.orders)
        .option("startingOffsets", "earliest")
    )
    if settings.per_batch:
        reader = reader.option("maxOffsetsPerTrigger", settings.per_batch)
    return reader.load()


def read_customers(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read the customers as a table: the newest record of each key, without deleted ones.

    The table is read once and cached. Changes take effect at the next start of the job.
    """
    records = (
        spark.read.format("tandem_kafka")
        .options(**settings.kafka_options)
        .option("subscribe", settings.customers)
        .load()
    )
    newest = records.groupBy("key").agg(f.max_by("value", "offset").alias("value"))
    return (
        newest.where("value IS NOT NULL")
        .select(
            f.col("key").cast("string").alias("customer"), from_json("value", CUSTOMER).alias("it")
        )
        .select("customer", "it.country")
        .cache()
    )


# Decoding: a column `order`, and a column `reason` that is null for valid orders


def decode_json(records: DataFrame) -> DataFrame:
    """Decode JSON; bad values are not JSON, or have fields of the wrong type."""
    is_json = f.try_parse_json(f.col("value").cast("string")).isNotNull()
    why = f.when(is_json, "a field has the wrong type").otherwise("not JSON")
    return _decoded(records, from_json("value", ORDER, mode="permissive"), why)


def decode_avro(records: DataFrame, registry: str) -> DataFrame:
    """Decode Avro that a schema registry's serializer wrote, with any version of its schema."""
    order = from_avro(
        "value", registry={"url": registry}, schema=ORDER_AVRO.read_text(), mode="permissive"
    )
    return _decoded(records, order, f.lit("not Avro of a schema in the registry"))


def _decoded(records: DataFrame, order: Column, why: Column) -> DataFrame:
    is_bad = f.col("order").isNull()
    reason = f.when(f.col("value").isNull(), "no value").when(is_bad, why)
    return records.withColumn("order", order).withColumn("reason", reason)


def check_orders(decoded: DataFrame) -> DataFrame:
    """Set a reason for decoded orders that are invalid."""
    at = f.timestamp_millis("order.at_ms")
    checks = [
        *((f.col(f"order.{name}").isNull(), f"no {name}") for name in _names()),
        (f.col("order.cents") <= 0, "cents is not positive"),
        (at > f.col("timestamp") + f.expr(AHEAD), "at_ms lies in the future"),
    ]
    found = f.coalesce("reason", *(f.when(bad, f.lit(reason)) for bad, reason in checks))
    return decoded.withColumn("reason", found)


def _names() -> list[str]:
    return [field.split()[0] for field in ORDER.split(", ")]


# Valid and invalid orders


def dead_letters(checked: DataFrame) -> DataFrame:
    """Return invalid orders as records for Kafka: the original value with reason and origin."""
    origin = {
        "reason": f.col("reason"),
        "topic": f.col("topic"),
        "partition": f.col("partition").cast("string"),
        "offset": f.col("offset").cast("string"),
    }
    headers = [
        f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))
        for name, value in origin.items()
    ]
    bad = checked.where("reason IS NOT NULL")
    return bad.select("key", "value", f.array(*headers).alias("headers"))


def valid_orders(checked: DataFrame) -> DataFrame:
    """Return valid orders as rows of id, customer, cents and the event time `at`."""
    good = checked.where("reason IS NULL").select(*(f"order.{name}" for name in _names()))
    return good.withColumn("at", f.timestamp_millis("at_ms")).drop("at_ms")


def without_duplicates(orders: DataFrame, delay: str) -> DataFrame:
    """Keep the first order of each id, and drop orders that arrive later than the delay."""
    return orders.withWatermark("at", delay).dropDuplicatesWithinWatermark(["id"])


def with_country(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Add the customer's country, or `unknown` for customers that are not in the table."""
    joined = orders.join(f.broadcast(customers), "customer", "left")
    return joined.withColumn("country", f.coalesce("country", f.lit("unknown")))


def totals_per_window(orders: DataFrame, window: str) -> DataFrame:
    """Count and sum orders by window and country; final after the watermark has passed."""
    return orders.groupBy(f.window("at", window).alias("window"), "country").agg(
        f.count("*").alias("orders"), f.sum("cents").alias("cents")
    )


def totals_as_records(totals: DataFrame) -> DataFrame:
    """Return totals as records for Kafka; duplicates of a total have the same key."""
    start = f.unix_millis("window.start").alias("window_start_ms")
    key = f.concat_ws("|", start, "country")
    return totals.select(
        key.alias("key"), f.to_json(f.struct(start, "country", "orders", "cents")).alias("value")
    )


# Writing


def to_kafka(rows: DataFrame, name: str, topic: str, settings: Settings) -> DataStreamWriter:
    """Write to a topic, at least once: a repeated batch writes its rows again."""
    writer = rows.writeStream.format("tandem_kafka").options(**settings.kafka_options)
    return _named(writer.option("topic", topic), name, settings)


def to_parquet(rows: DataFrame, name: str, settings: Settings) -> DataStreamWriter:
    """Write Parquet files, exactly once for readers that follow the log beside the files."""
    writer = rows.writeStream.format("parquet").option("path", str(settings.folder / name))
    return _named(writer, name, settings)


def _named(writer: DataStreamWriter, name: str, settings: Settings) -> DataStreamWriter:
    checkpoint = settings.folder / "checkpoints" / name
    trigger = {"availableNow": True} if settings.once else {"processingTime": settings.every}
    return (
        writer.queryName(name)
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(**trigger)
    )


# The job


def pipeline(spark: SparkSession, settings: Settings) -> list[DataStreamWriter]:
    """Combine the steps to three queries, each with a separate checkpoint."""
    records = read_orders(spark, settings)
    if settings.registry is None:
        decoded = decode_json(records)
    else:
        decoded = decode_avro(records, settings.registry)
    checked = check_orders(decoded)
    orders = with_country(
        without_duplicates(valid_orders(checked), settings.delay), read_customers(spark, settings)
    )
    totals = totals_as_records(totals_per_window(orders, settings.window))
    return [
        to_kafka(dead_letters(checked), "dead-letters", settings.dead_letters, settings),
        to_parquet(orders, "orders", settings),
        to_kafka(totals, "totals", settings.totals, settings),
    ]


def start_session(settings: Settings) -> SparkSession:
    """Start Spark; settings of a cluster manager or spark-submit take precedence."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName("orders")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        # The number of partitions for shuffles and state; it cannot change after the first start.
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if settings.master:
        builder = builder.master(settings.master)
    return builder.getOrCreate()


def start(writers: list[DataStreamWriter]) -> list[StreamingQuery]:
    """Start the first query, wait until it reads, and then start the others.

    "Several streams in one job" in docs/reference/spark.md explains the reason.
    """
    first = writers[0].start()
    while first.isActive and not first.recentProgress:
        if first.status["message"].startswith("Waiting for"):
            break  # nothing to read yet
        time.sleep(0.05)
    return [first, *(writer.start() for writer in writers[1:])]


def run(settings: Settings) -> None:
    """Run until SIGTERM, Ctrl-C, or the end with --once; raises the error of a failed query."""
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    spark = start_session(settings)
    spark.streams.addListener(LagListener())  # logs how far each query is behind
    if settings.progress:
        spark.streams.addListener(ProgressLog(settings.progress))
    queries = start(pipeline(spark, settings))
    failed: list[Exception] = []
    while not stopping and not failed and any(query.isActive for query in queries):
        time.sleep(0.2)
        failed = [error for error in (query.exception() for query in queries) if error]
    for query in queries:
        query.stop()
    spark.stop()
    if failed:
        raise failed[0]


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for package in ("tandem_kafka", "pyspark_tandem_kafka"):
        logging.getLogger(package).setLevel(logging.INFO)
    run(Settings.parse())
