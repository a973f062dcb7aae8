"""A job for a cluster: batch query, stream and sink, in which one task each may wait.

python -m packages.spark.tests.cluster_job '<the fields of ClusterJob, as JSON>'
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from packages.spark.tests.standalone import QUICK_START

__all__ = ["ClusterJob"]


@dataclass(frozen=True)
class ClusterJob:
    """The parameters of the job.

    Attributes:
        master: The address of the cluster.
        bootstrap: The address of the brokers.
        topic: The topic to read.
        target: The topic of the sink, which writes in transactions.
        folder: The folder for Parquet files in `batch` and `stream`, and checkpoints.
        steps: The steps to run: batch, stream, sink.
        holds: If true, the first task of each step writes its process id to `<step>-held` and
            waits; later attempts do not wait.
        idles: If true, the job waits between two steps until all executors have ended.
        settings: Settings of Spark.
    """

    master: str
    bootstrap: str
    topic: str
    target: str
    folder: str
    steps: tuple[str, ...] = ("batch", "stream", "sink")
    holds: bool = False
    idles: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Return the command that runs the job."""
        return [sys.executable, "-m", "packages.spark.tests.cluster_job", json.dumps(asdict(self))]

    def run(self) -> None:
        """Run all steps."""
        spark = self._session()
        for step in self.steps:
            if self.idles:
                self._wait_for_no_executor(spark)
            getattr(self, f"_{step}")(spark)
        spark.stop()

    def _session(self) -> SparkSession:
        builder = SparkSession.builder.master(self.master)
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.sql.shuffle.partitions": "2",
            # Small batches, so that some rows are written before a task waits.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        }
        for name, value in {**settings, **self.settings}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def _batch(self, spark: SparkSession) -> None:
        rows = self._held(self._read(spark.read, "batch"), "batch")
        rows.write.parquet(str(Path(self.folder) / "batch"))

    def _stream(self, spark: SparkSession) -> None:
        rows = self._held(self._read(spark.readStream, "stream"), "stream")
        files = rows.writeStream.format("parquet").option("path", str(Path(self.folder) / "stream"))
        self._finish(files, "stream")

    def _sink(self, spark: SparkSession) -> None:
        rows = self._held(self._read(spark.readStream, "sink"), "sink").select("value")
        kafka = (
            rows.writeStream.format("tandem_kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.target)
            .option("tandem.transactionalIdPrefix", f"{self.target}-sink")
        )
        self._finish(kafka, "sink")

    def _read(self, reader: Any, step: str) -> DataFrame:
        reader = reader.format("tandem_kafka").option("kafka.bootstrap.servers", self.bootstrap)
        if step != "batch":
            reader = reader.option("maxOffsetsPerTrigger", "3000")
        options = {"subscribe": self.topic, "startingOffsets": "earliest"}
        found: DataFrame = reader.options(**options).load()
        return found

    def _held(self, rows: DataFrame, step: str) -> DataFrame:
        if not self.holds:
            return rows
        return rows.mapInArrow(_holding(str(Path(self.folder) / f"{step}-held")), rows.schema)

    def _finish(self, writer: Any, step: str) -> None:
        checkpoint = str(Path(self.folder) / f"{step}-checkpoint")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    def _wait_for_no_executor(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        until = time.monotonic() + 60
        # The driver is included.
        while len(context._jsc.sc().statusTracker().getExecutorInfos()) > 1:
            assert time.monotonic() < until, "executors have not ended"
            time.sleep(0.1)
        print("no executors")


def _holding(path: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function of batches in which one task waits after 300 rows until it is killed."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if rows >= 300 and not os.path.exists(path):  # noqa: PTH110 - travels by value
                with open(f"{path}.{os.getpid()}", "x") as file:  # noqa: PTH123
                    file.write(str(os.getpid()))
                try:
                    os.link(file.name, path)
                except FileExistsError:
                    continue
                time.sleep(100)
                raise AssertionError("this task was not killed")

    return pass_on


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    ClusterJob(**given).run()
