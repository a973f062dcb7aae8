"""`python -m tests.mutants`: do the tests find bugs that are planted one at a time?

A bug is planted in a copy of the tree, the everyday tests of its room run there until one fails,
and it is taken out again. Tests that need a real broker do not run. Before the first bug of a room,
its tests must pass without one. Each bug has a line; the exit code is 0 if all are found.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tandem_kafka.runtime import Random
from tests.mutants.bugs import LISTS, ROOT, Bug, bugs_of
from tests.mutants.measuring import (
    Measured,
    Result,
    measure,
    run_tests,
    what_is_imported,
    what_is_missing,
)
from tests.mutants.planting import copied


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure bugs; returns 0 if each of them is found."""
    chosen = _parser().parse_args(arguments)
    bugs = _chosen(chosen)
    if unknown := {*(chosen.bug or ())} - {bug.id for bug in bugs}:
        print(f"no such bug: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if not bugs:
        print("no such bug", file=sys.stderr)
        return 2
    # In the background a shell ignores it, and so would the tests of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the copy is deleted first
    counts = Counter[Result]()
    with copied(ROOT) as copy:
        imported = what_is_imported(copy)
        assert imported <= {copy, *copy.glob("packages/*")}, f"the tests would import {imported}"
        for bug, measured in _measured(copy, bugs, chosen.timeout, check=not chosen.no_check):
            print(_line(bug, measured), flush=True)
            counts[measured.result] += 1
    print(", ".join(f"{count} {result.value}" for result, count in counts.items()))
    return 0 if counts.keys() == {Result.FOUND} else 1


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    names = [path.stem for path in LISTS]
    made.add_argument("--list", choices=names, help="bugs of this list only (default: all lists)")
    made.add_argument("--room", help="bugs of this room only")
    made.add_argument("--bug", nargs="+", help="these bugs only, by their ids")
    made.add_argument("--draw", type=int, metavar="N", help="only N of these, drawn by the seed")
    made.add_argument("--seed", type=int, help="the seed of --draw (default: a new one)")
    made.add_argument("--timeout", type=float, default=300, help="seconds for a run (default 300)")
    made.add_argument(
        "--no-check", action="store_true", help="do not run the tests without a bug first"
    )
    return made


def _chosen(chosen: argparse.Namespace) -> list[Bug]:
    listed = [bug for path in LISTS if chosen.list in {None, path.stem} for bug in bugs_of(path)]
    found = [
        bug
        for bug in listed
        if chosen.room in {None, bug.room} and (chosen.bug is None or bug.id in chosen.bug)
    ]
    if chosen.draw is None:
        return found
    seed = time.time_ns() % 1_000_000 if chosen.seed is None else chosen.seed
    print(f"--draw {chosen.draw} --seed {seed}", flush=True)
    drawn = Random(seed).sample([*range(len(found))], min(chosen.draw, len(found)))
    return [found[at] for at in sorted(drawn)]  # bugs of a room stay together


def _measured(
    copy: Path, bugs: Sequence[Bug], timeout_s: float, *, check: bool
) -> Iterator[tuple[Bug, Measured]]:
    for room, group in groupby(bugs, lambda bug: bug.room):
        of_room = list(group)
        wrong = ""
        if check:
            tried = [bug for bug in of_room if not what_is_missing(bug)]
            wrong = _check(copy, room, tried, timeout_s)
        for bug in of_room:
            yield bug, Measured(Result.ERROR, by=wrong) if wrong else measure(copy, bug, timeout_s)


def _check(copy: Path, room: str, bugs: Sequence[Bug], timeout_s: float) -> str:
    """Return why the tests of a room say nothing about its bugs: they fail without one."""
    tests = dict.fromkeys(test for bug in bugs for test in bug.tests)
    if not tests:
        return ""
    without = run_tests(copy, list(tests), timeout_s)
    if without.result is Result.NOT_FOUND:
        print(f"{room}: its tests pass without a bug in {without.seconds:.0f} s", flush=True)
        return ""
    kind = "fail" if without.result is Result.FOUND else without.result.value
    return f"without a bug its tests {kind}: {without.by}".rstrip(": ")


def _line(bug: Bug, measured: Measured) -> str:
    why = bug.loses if measured.result is Result.NOT_FOUND else measured.by
    return (
        f"{bug.id:<4} {bug.file:<52} {measured.result.value:<11} {measured.seconds:>4.0f} s  {why}"
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
