"""A job that tests kill: it writes the existing records of a topic to Parquet files.

With a target topic, it writes the values there instead; with a prefix, in transactions.

python -m packages.spark.tests.writer_job <bootstrap> <topic> <folder> [<master> [<target>
    [<prefix>]]]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    """Run until everything is written."""
    bootstrap, topic, folder, *more = sys.argv[1:]
    master, target, prefix = (more + ["local[2,4]", "", ""][len(more) :])[:3]
    spark = (
        # A task has four attempts, as in a cluster. Otherwise, a killed worker would end the query.
        SparkSession.builder.master(master)
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    stream = (
        spark.readStream.format("tandem_kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "500")
        .load()
    )
    if target:
        writer = (
            stream.select("value")
            .writeStream.format("tandem_kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
        )
        if prefix:
            writer = writer.option("tandem.transactionalIdPrefix", prefix)
    else:
        writer = stream.writeStream.format("parquet").option("path", str(Path(folder) / "out"))
    query = (
        writer.option("checkpointLocation", str(Path(folder) / "out-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
