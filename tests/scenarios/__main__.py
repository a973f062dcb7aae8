"""`python -m tests.scenarios`: `run` scenarios with many seeds, `replay` one seed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tandem_kafka.runtime import MonotonicClock, Random
from tests.scenarios import SCENARIOS, Outcome, run_seed
from tests.scenarios.runner import Totals, run_seeds, silence

__all__ = ["main"]

#: Without `--first`, the first seed is drawn below this: short enough to type.
NEW_SEEDS = 10**8


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or replay seeds; returns the exit code."""
    chosen = parser().parse_args(arguments)
    commands = {"run": _run, "replay": _replay}
    return commands[chosen.command](chosen)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m tests.scenarios", description="Run groups under simulated faults."
    )
    commands = made.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="run many seeds; exits with 1 if one of them fails")
    runs.add_argument("--seeds", type=int, default=500, help="number of seeds (default 500)")
    runs.add_argument("--first", type=int, help="first seed (default: new seeds each time)")
    runs.add_argument("--jobs", type=int, default=2, help="number of processes (default 2)")
    replay = commands.add_parser("replay", help="run one seed and print everything that happened")
    replay.add_argument("seed", type=int, help="the seed to run")
    for command in (runs, replay):
        command.add_argument(
            "--scenario", choices=SCENARIOS, help="kind of group (default: each in turn)"
        )
    return made


def _run(chosen: argparse.Namespace) -> int:
    clock = MonotonicClock()
    began_ms = clock.now_ms()
    first = Random().randrange(NEW_SEEDS) if chosen.first is None else chosen.first
    seeds = range(first, first + chosen.seeds)
    print(f"seeds {first} to {seeds.stop - 1}, {chosen.jobs} processes; {_how_to_replay(chosen)}")
    sys.stdout.flush()

    def report(totals: Totals) -> None:
        passed = _seconds(clock.now_ms() - began_ms)
        print(f"{passed:>8} s  {_progress(totals, chosen.seeds)}", flush=True)

    totals = run_seeds(seeds, chosen.scenario, chosen.jobs, clock, report)
    took_ms = max(1, clock.now_ms() - began_ms)
    _summarize(totals, took_ms)
    for failure in totals.failures:
        _print_failure(failure, chosen)
    return 1 if totals.failures else 0


def _how_to_replay(chosen: argparse.Namespace, seed: int | str = "SEED") -> str:
    named = f" --scenario {chosen.scenario}" if chosen.scenario else ""
    return f"replay one: python -m tests.scenarios replay {seed}{named}"


def _progress(totals: Totals, seeds: int) -> str:
    return (
        f"{totals.seeds:>6} of {seeds} seeds  {totals.virtual_ms / 3_600_000:6.2f} simulated hours"
        f"  {totals.events:>9,} events  {_failed(totals)}"
    )


def _failed(totals: Totals) -> str:
    seeds = " ".join(str(failure.seed) for failure in totals.failures)
    return f"{len(totals.failures)} failed" + (f": {seeds}" if seeds else "")


def _summarize(totals: Totals, took_ms: int) -> None:
    seeds = max(1, totals.seeds)
    print(
        f"\n{totals.seeds} seeds in {_seconds(took_ms)} s: {totals.seeds * 60_000 / took_ms:.0f} "
        f"a minute, each {totals.virtual_ms / seeds / 1_000:.1f} simulated seconds, "
        f"{totals.events:,} events, {totals.iterations:,} loop iterations; "
        f"longest time to settle {_seconds(totals.longest_ms)} s"
    )
    faults = sorted(totals.faults.items())
    print("faults: " + ", ".join(f"{count:,} {name}" for name, count in faults))
    if totals.account:
        print(", ".join(f"{count:,} {name}" for name, count in totals.account.items()))
    print(f"{len(totals.failures)} failed" if totals.failures else "all passed")


def _print_failure(failure: Outcome, chosen: argparse.Namespace) -> None:
    print(f"\nseed {failure.seed}, {failure.scenario}: {failure.error}")
    for line in failure.trace:
        print(f"    {line}")
    print(_how_to_replay(chosen, failure.seed))


def _replay(chosen: argparse.Namespace) -> int:
    with silence():
        outcome = run_seed(chosen.seed, chosen.scenario, whole_trace=True)
    for line in outcome.trace:
        print(line)
    print(
        f"\nseed {outcome.seed}, {outcome.scenario}: {_seconds(outcome.virtual_ms)} simulated "
        f"seconds, {outcome.events:,} events, trace {outcome.digest}"
    )
    print(outcome.error or "passed")
    return 1 if outcome.error else 0


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1_000:.1f}"


if __name__ == "__main__":
    sys.exit(main())
