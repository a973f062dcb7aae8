"""The settings of the job on its command line."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one run.

    Attributes:
        bootstrap: Brokers, `host:port` separated by commas.
        kafka: File with more options of the Kafka clients, as JSON:
            `{"kafka.security.protocol": "SASL_SSL", ...}`.
        orders: Topic of the orders.
        customers: Topic of the customers; the newest record of a key is used.
        dead_letters: Topic for invalid orders.
        totals: Topic for the totals of each window.
        folder: Folder for the Parquet files and the checkpoints.
        format: `json` or `avro`.
        registry: URL of the schema registry; only with `avro`.
        delay: How late an order may arrive, in event time.
        window: Length of a window, in event time.
        per_batch: Maximum records of a micro-batch; 0 for no limit.
        every: Time from the start of one micro-batch to the start of the next.
        once: Stop after all existing records are read.
        progress: File for a line of JSON per micro-batch.
        master: Spark's master; omit it with spark-submit.
    """

    bootstrap: str
    kafka: Path | None
    orders: str
    customers: str
    dead_letters: str
    totals: str
    folder: Path
    format: str
    registry: str | None
    delay: str
    window: str
    per_batch: int
    every: str
    once: bool
    progress: Path | None
    master: str | None

    @classmethod
    def parse(cls, arguments: list[str] | None = None) -> Settings:
        """Parse the command line; exits with an error if it is invalid."""
        parser = argparse.ArgumentParser(description="Orders from Kafka to Parquet and Kafka.")
        add = parser.add_argument
        add("--bootstrap", default="localhost:9092", help="brokers, host:port by commas")
        add("--kafka", type=Path, help="JSON file with more kafka.* options (TLS, SASL)")
        add("--orders", default="orders", help="topic to read")
        add("--customers", default="customers", help="topic to join")
        add("--dead-letters", default="orders-dead-letters", help="topic for bad orders")
        add("--totals", default="orders-totals", help="topic for totals per window")
        add("--folder", type=Path, default=Path("pipeline-data"), help="files and checkpoints")
        add("--format", choices=("json", "avro"), default="json", help="format of the orders")
        add("--registry", help="URL of the schema registry, for --format avro")
        add("--delay", default="30 minutes", help="how late an order may arrive")
        add("--window", default="10 minutes", help="length of a window")
        add(
            "--per-batch", type=int, default=0, help="maximum records of a micro-batch; 0: no limit"
        )
        add("--every", default="1 second", help="time between micro-batches")
        add("--once", action="store_true", help="stop after all existing records are read")
        add("--progress", type=Path, help="file for a line of JSON per micro-batch")
        add("--master", help="Spark's master, such as local[2]")
        found = cls(**vars(parser.parse_args(arguments)))
        if (found.format == "avro") != (found.registry is not None):
            parser.error("--format avro and --registry URL belong together: give both or neither")
        return found

    @property
    def kafka_options(self) -> dict[str, str]:
        """Options that all sources and sinks share."""
        more = json.loads(self.kafka.read_text()) if self.kafka else {}
        return {"kafka.bootstrap.servers": self.bootstrap, **more}
