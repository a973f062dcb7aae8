"""A job for spark-submit: it reads and writes, and prints the results.

shipped_job.py <bootstrap> <topic> <target> [register]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession


def _tried(name: str, action: Callable[[], object]) -> None:
    try:
        print(f"{name}: {action()}")
    except Exception as error:  # noqa: BLE001 - prints what users see
        print(f"{name} failed: {json.dumps(str(error))}")


def _package(_: int) -> str:
    """Return the path of the package on a worker, and its Python."""
    import tandem_kafka

    return f"{tandem_kafka.__file__} {sys.executable}"


def main() -> None:
    """Read, write, and print which package the workers use."""
    bootstrap, topic, target, *more = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    if more:
        from pyspark_tandem_kafka import TandemKafkaDataSource

        spark.dataSource.register(TandemKafkaDataSource)
    rows = (
        spark.read.format("tandem_kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    numbers = spark.range(10).selectExpr("string(id) value").write.format("tandem_kafka")
    written = numbers.mode("append").option("kafka.bootstrap.servers", bootstrap)
    _tried("read", rows.count)
    _tried("write", lambda: written.option("topic", target).save())
    _tried("package", lambda: spark.sparkContext.parallelize([0], 1).map(_package).first())
    spark.stop()


if __name__ == "__main__":
    main()
