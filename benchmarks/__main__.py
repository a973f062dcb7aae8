"""The command: choose what to measure, measure it, print and write the results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.plan import FULL, MEASURES, QUICK, Measure
from benchmarks.plot import plot
from benchmarks.readers.catalogue import CATALOGUE
from benchmarks.report import Results, markdown, table, write_json
from benchmarks.suite import Sample, Suite
from tests.kafka.broker import KafkaCluster

_FOLDER = Path(__file__).with_name("results")
_BROKER_OPTIONS = ("-Xmx1g",)
#: What Kafka's own producer fills up to by default.
_BATCH_BYTES = 16_384


def main() -> int:
    """Run as `python -m benchmarks`."""
    arguments = _parser().parse_args()
    plan = QUICK if arguments.quick else FULL
    measures = [each for each in MEASURES if _chosen(each, arguments.only)]
    results = Results([])
    with KafkaCluster(jvm_options=_BROKER_OPTIONS) as cluster:
        suite = Suite(cluster, plan, arguments.batch_bytes)
        for sample in suite.run(measures, arguments.readers):
            _tell(sample)
            results.samples.append(sample)
    for measure in results.measures():
        print(f"\n{measure.title}\n")
        print("\n".join(table(results, measure)))
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    report = markdown(results, plan, arguments.batch_bytes)
    (folder / "results.md").write_text(report, encoding="utf-8")
    write_json(results, plan, arguments.batch_bytes, folder / "results.json")
    plot(results, folder / "results.png")
    print(f"\nwritten: results.md, results.json and results.png in {folder}")
    return 1 if results.failures() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer records, the same measures")
    parser.add_argument(
        "--readers",
        nargs="+",
        choices=list(CATALOGUE),
        default=list(CATALOGUE),
        metavar="READER",
        help=f"some of: {', '.join(CATALOGUE)}",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=["throughput", *(measure.name for measure in MEASURES)],
        metavar="MEASURE",
        help=f"some of: throughput, {', '.join(measure.name for measure in MEASURES)}",
    )
    parser.add_argument(
        "--batch-bytes", type=int, default=_BATCH_BYTES, help="size of the producer's batches"
    )
    parser.add_argument("--output", type=Path, default=_FOLDER, help="where the results go")
    return parser


def _chosen(measure: Measure, only: list[str] | None) -> bool:
    return only is None or measure.name in only or measure.name.partition("-")[0] in only


def _tell(sample: Sample) -> None:
    figures = "  ".join(f"{name} {value:,.2f}" for name, value in sample.figures.items())
    print(f"{sample.measure:16} {sample.reader:20} {sample.failure or figures}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
