"""`make pipeline`: runs the job of `examples/pipeline` on a new broker, and reports the result."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import tandem_kafka
from pipeline.compare import compare, written_again
from pipeline.encoding import AVRO_SCHEMA, encoder
from pipeline.figures import Found, expect
from pipeline.orders import SPAN_MS, customers, entries
from pipeline.plot import draw
from pipeline.producing import Orders, produce_customers
from pipeline.report import Report
from pipeline.run import TOPICS, Plan, Run, new_producer
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.jars import KAFKA_VERSION

_HOUR_MS = 3_600_000
_PARTITIONS = 3


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline", description=__doc__)
    add = parser.add_argument
    add("--orders", type=int, default=40_000, help="number of orders, without duplicates")
    add("--seconds", type=float, default=40.0, help="minimum time of the producer")
    add(
        "--seed",
        type=int,
        default=16,
        help="selects the orders that are late, duplicated or broken",
    )
    add("--format", choices=("json", "avro"), default="json")
    add("--folder", type=Path, default=Path("build/pipeline"), help="emptied first")
    found = parser.parse_args(arguments)
    if found.orders < 1_000:
        parser.error(
            f"--orders must be 1000 or more, to include some of each kind; got {found.orders}"
        )
    return found


@contextlib.contextmanager
def schema_registry(enabled: bool) -> Iterator[tuple[str | None, int]]:
    """Run a registry with the schema of the orders, if enabled; yields its URL and the id."""
    if not enabled:
        yield None, 0
        return
    from pipeline.registry import SchemaRegistry  # noqa: PLC0415 - only for Avro

    with SchemaRegistry() as registry:
        schema = {"schema": AVRO_SCHEMA.read_text()}
        yield registry.url, registry.register(f"{TOPICS['orders']}-value", schema)


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Run everything and report; returns the exit code."""
    folder: Path = arguments.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    implementation = "native" if tandem_kafka.native_available else "pure Python"
    report.event(f"tandem-kafka {tandem_kafka.__version__}, {implementation} implementation")
    report.event(f"starting Kafka {KAFKA_VERSION}")
    with RealKafka() as kafka, schema_registry(arguments.format == "avro") as registry:
        report.event(f"Kafka runs at {kafka.bootstrap()}")
        for topic in TOPICS.values():
            kafka.admin.create_topic(topic, _PARTITIONS)
        begin_ms = int(time.time() * 1_000) // _HOUR_MS * _HOUR_MS - 2 * SPAN_MS
        produced = list(entries(arguments.orders, arguments.seed, begin_ms))
        people = customers(arguments.seed)
        encode = encoder(arguments.format, registry[1])
        expected = expect(produced, people, encode, arguments.format)
        producer = new_producer(kafka.bootstrap())
        produce_customers(producer, TOPICS["customers"], people)
        pace = len(produced) / arguments.seconds
        orders = Orders(producer, TOPICS["orders"], produced, encode, pace)
        plan = Plan(kafka.bootstrap(), folder, arguments.orders, pace, registry[0])
        with Run(plan, orders, expected, report) as current:
            found = current.execute()
    report.event("Kafka stopped")
    plot = folder / "pipeline.png"
    draw(plot, orders.samples, current.progress, current.outage, found.written)
    lines = compare(expected, found)
    report.figures(lines)
    report.speed(current.progress, current.largest_lags())
    repeated(report, found)
    report.say(f"Plot: {plot}")
    wrong = sum(not line.agrees for line in lines)
    if wrong:
        report.say(f"{wrong} figures differ", "bold red")
        return 1
    report.say("All figures are equal.", "bold green")
    return 0


def repeated(report: Report, found: Found) -> None:
    """Report the rows that the sink wrote again after the kill."""
    report.say(
        f"\nWritten to Kafka again after the kill: "
        f"{written_again(found.dead_letters)} dead letters, {written_again(found.totals)} totals "
        "(the sink writes at least once; all copies were compared)."
    )


def main() -> int:
    """Run the command; returns the exit code."""
    arguments, report = parse(), Report()
    try:
        return run(arguments, report)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, TimeoutError) as error:
        report.say(f"failed: {error}", "bold red")
        return 1


if __name__ == "__main__":
    sys.exit(main())
