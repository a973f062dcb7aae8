"""The command: choose what to measure, measure it, print and write the results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.aio.applications import APPLICATIONS
from benchmarks.aio.plan import AIO_MEASURES, AIO_PLAN, AIO_QUICK
from benchmarks.aio.report import write_aio
from benchmarks.groups.plan import BROKER, CLIENTS, GROUP_MEASURES, GROUPS, GROUPS_QUICK
from benchmarks.groups.report import write_groups
from benchmarks.groups.suite import GroupSuite
from benchmarks.options.plan import OPTION_MEASURES, OPTIONS
from benchmarks.options.report import write_options
from benchmarks.plan import FULL, MEASURES, QUICK, Measure, Plan
from benchmarks.plot import plot
from benchmarks.readers.catalogue import OURS, READERS
from benchmarks.readers.variants import VARIANTS
from benchmarks.report import Results, markdown, table, write_json
from benchmarks.share.plan import SHARE_MEASURES, SHARE_PLAN, SHARE_QUICK, ShareSuite
from benchmarks.share.report import write_share
from benchmarks.start.plan import (
    START_CLIENTS,
    START_MEASURES,
    START_QUICK,
    START_RUNS,
    StartSuite,
)
from benchmarks.start.report import write_start
from benchmarks.suite import Sample, Suite
from benchmarks.ways.plan import COLUMN_MEASURES, WAY_MEASURES, WAYS_PLAN, WAYS_QUICK
from benchmarks.ways.readers import WAYS
from benchmarks.ways.report import goals, write_columns, write_ways
from benchmarks.workers.crews import CREWS
from benchmarks.workers.plan import WORKERS_MEASURES, WORKERS_PLAN, WORKERS_QUICK
from benchmarks.workers.report import write_workers
from tandem_kafka_testing.kafka import RealKafka

_FOLDER = Path(__file__).with_name("results")
_BROKER_OPTIONS = ("-Xmx1g",)
#: The default of Kafka's own producer.
_BATCH_BYTES = 16_384


def main() -> int:
    """Run as `python -m benchmarks`."""
    arguments = _parser().parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    failed = False
    for part in (_readers, _options, _ways, _asynchronous, _workers, _groups, _share, _start):
        failed |= part(arguments)
    return 1 if failed else 0


def _readers(arguments: argparse.Namespace) -> bool:
    """Measure readers without a group; returns whether anything failed."""
    plan = QUICK if arguments.quick else FULL
    measures = _chosen(MEASURES, arguments.only)
    if not measures:
        return False
    results, files = Results([]), ["results.md", "results.json", "results.png"]
    with RealKafka(jvm_options=_BROKER_OPTIONS) as cluster:
        suite = Suite(cluster, plan, arguments.batch_bytes)
        for measure in measures:
            _collect(suite.run([measure], arguments.readers), results)
            # Written after each measure, so that an interrupted run keeps its results.
            _write(results, plan, arguments)
    _print_files(results, arguments.output, files)
    return bool(results.failures())


def _write(results: Results, plan: Plan, arguments: argparse.Namespace) -> None:
    folder: Path = arguments.output
    results.end()
    report = markdown(results, plan, arguments.batch_bytes)
    (folder / "results.md").write_text(report, encoding="utf-8")
    write_json(results, plan, arguments.batch_bytes, folder / "results.json")
    plot(results, folder / "results.png")


def _options(arguments: argparse.Namespace) -> bool:
    """Measure the effect of single options; returns whether anything failed."""
    plan = QUICK if arguments.quick else OPTIONS
    results = _of_suite(arguments, plan, OPTION_MEASURES, [OURS, *VARIANTS], write_options)
    return bool(results.failures())


def _ways(arguments: argparse.Namespace) -> bool:
    """Measure the usual ways of reading, also to columns; returns whether anything failed."""
    plan = WAYS_QUICK if arguments.quick else WAYS_PLAN
    many = replace(plan, documents=2_000_000)
    parts = [
        _of_suite(arguments, plan, WAY_MEASURES, list(WAYS), write_ways),
        _of_suite(arguments, many, COLUMN_MEASURES, list(WAYS), write_columns),
    ]
    for results in parts:
        if results.samples:
            print("\n".join(" ".join(row) for row in goals(results)), flush=True)
    return any(results.failures() for results in parts)


def _asynchronous(arguments: argparse.Namespace) -> bool:
    """Measure clients for asyncio; returns whether anything failed."""
    plan = AIO_QUICK if arguments.quick else AIO_PLAN
    results = _of_suite(arguments, plan, AIO_MEASURES, list(APPLICATIONS), write_aio)
    return bool(results.failures())


def _workers(arguments: argparse.Namespace) -> bool:
    """Measure workers; returns whether anything failed."""
    plan = WORKERS_QUICK if arguments.quick else WORKERS_PLAN
    results = _of_suite(arguments, plan, WORKERS_MEASURES, list(CREWS), write_workers)
    return bool(results.failures())


def _of_suite(
    arguments: argparse.Namespace,
    plan: Plan,
    known: Sequence[Measure],
    readers: list[str],
    write: Callable[[Results, Plan, Path], list[str]],
) -> Results:
    """Run the requested measures on a separate cluster, and write the results, if there are any.

    Args:
        arguments: The arguments of the command.
        plan: How much to measure.
        known: All measures of this part.
        readers: The readers to compare.
        write: Writes the results into a folder, and returns the names of the files.
    """
    measures = _chosen(known, arguments.only)
    results = Results([], known)
    if not measures or OURS not in arguments.readers:
        return results
    with RealKafka(jvm_options=_BROKER_OPTIONS) as cluster:
        _collect(Suite(cluster, plan, arguments.batch_bytes).run(measures, readers), results)
    results.end()
    _print_files(results, arguments.output, write(results, plan, arguments.output))
    return results


def _groups(arguments: argparse.Namespace) -> bool:
    """Measure members of groups; returns whether anything failed."""
    plan = GROUPS_QUICK if arguments.quick else GROUPS
    measures = _chosen(GROUP_MEASURES, arguments.only, also="groups")
    clients = [each for each in CLIENTS if each in arguments.readers]
    if not measures or not clients:
        return False
    results = Results([], GROUP_MEASURES)
    with RealKafka(properties=BROKER, jvm_options=_BROKER_OPTIONS) as cluster:
        _collect(GroupSuite(cluster, plan).run(measures, clients), results)
    results.end()
    _print_files(results, arguments.output, write_groups(results, plan, arguments.output))
    return bool(results.failures())


def _share(arguments: argparse.Namespace) -> bool:
    """Measure share groups; returns whether anything failed."""
    plan = SHARE_QUICK if arguments.quick else SHARE_PLAN
    measures = _chosen(SHARE_MEASURES, arguments.only)
    if not measures:
        return False
    results = Results([], SHARE_MEASURES)
    with RealKafka(jvm_options=_BROKER_OPTIONS) as cluster:
        _collect(ShareSuite(cluster, plan).run(measures, arguments.readers), results)
    results.end()
    _print_files(results, arguments.output, write_share(results, plan, arguments.output))
    return bool(results.failures())


def _start(arguments: argparse.Namespace) -> bool:
    """Measure what a process pays to begin; returns whether anything failed."""
    runs = START_QUICK if arguments.quick else START_RUNS
    measures = _chosen(START_MEASURES, arguments.only)
    clients = [each for each in START_CLIENTS if each in arguments.readers]
    if not measures or not clients:
        return False
    results = Results([], START_MEASURES)
    with RealKafka(properties=BROKER, jvm_options=_BROKER_OPTIONS) as cluster:
        _collect(StartSuite(cluster, runs).run(measures, clients), results)
    results.end()
    _print_files(results, arguments.output, write_start(results, runs, arguments.output))
    return bool(results.failures())


def _collect(samples: Iterator[Sample], results: Results) -> None:
    for sample in samples:
        _print_sample(sample)
        results.samples.append(sample)


def _print_files(results: Results, folder: Path, files: list[str]) -> None:
    for measure in results.measures():
        print(f"\n{measure.title}\n")
        print("\n".join(table(results, measure)))
        for verdict in results.verdicts(measure):
            print(verdict.text())
    print(f"\nwritten: {', '.join(files)} in {folder}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer records, the same measures")
    parser.add_argument(
        "--readers",
        nargs="+",
        choices=list(READERS),
        default=list(READERS),
        metavar="READER",
        help=f"some of: {', '.join(READERS)}",
    )
    kinds = [
        "throughput",
        "compressed",
        "many",
        "options",
        "ways",
        "columns",
        "aio",
        "workers",
        "groups",
        "share",
        "start",
    ]
    measures = (
        *MEASURES,
        *OPTION_MEASURES,
        *WAY_MEASURES,
        *COLUMN_MEASURES,
        *AIO_MEASURES,
        *WORKERS_MEASURES,
        *GROUP_MEASURES,
        *SHARE_MEASURES,
        *START_MEASURES,
    )
    names = [*kinds, *(each.name for each in measures)]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="MEASURE", help=f"some of: {', '.join(names)}"
    )
    parser.add_argument(
        "--batch-bytes", type=int, default=_BATCH_BYTES, help="size of the producer's batches"
    )
    parser.add_argument("--output", type=Path, default=_FOLDER, help="where the results go")
    return parser


def _chosen(
    measures: Sequence[Measure], only: Collection[str] | None, also: str | None = None
) -> list[Measure]:
    """Return the requested measures: by name, by the first word of it, or all by `also`."""
    if only is None or also in only:
        return list(measures)
    return [each for each in measures if {each.name, each.name.split("-")[0]} & set(only)]


def _print_sample(sample: Sample) -> None:
    figures = "  ".join(f"{name} {value:,.2f}" for name, value in sample.figures.items())
    print(f"{sample.measure:17} {sample.reader:20} {sample.failure or figures}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
