"""`python -m tests.answers [WORD ...]`: try every answer, or those with all words in their names.

A word `no:WORD` must not be in the name.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.answers.check import Case, broken_promises, cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what does not hold; returns 1 if there is anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.answers", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    fewer = parser.add_mutually_exclusive_group()
    fewer.add_argument("--gate", action="store_true", help="only what the gate tries")
    fewer.add_argument(
        "--once", action="store_true", help="each answer once: the kinds of consumers take turns"
    )
    given = parser.parse_args(arguments)
    _chosen[:] = [
        case
        for case in cases(every=not given.gate, once=given.once)
        if all(
            (word.removeprefix("no:") in case.id) != word.startswith("no:") for word in given.words
        )
    ]
    kinds: Counter[str] = Counter()
    cpu = 0.0
    # Forked processes have the cases, which cannot be pickled.
    with ProcessPoolExecutor(given.jobs, get_context("fork")) as pool:
        for number, (broken, took) in enumerate(pool.map(_run, range(len(_chosen)), chunksize=10)):
            cpu += took
            if broken:
                print(f"{_chosen[number].id}: {broken}", flush=True)
            kinds.update(broken.keys())
    print(f"{len(_chosen)} cases, {dict(kinds)}, {cpu:.0f} s of CPU time")
    return 1 if kinds else 0


_chosen: list[Case] = []


def _run(number: int) -> tuple[dict[str, str], float]:
    began = time.process_time()
    broken = broken_promises(_chosen[number])
    return broken, time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
