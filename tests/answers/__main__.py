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

from tests.answers.check import broken_promises, cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what does not hold; returns 1 if there is anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.answers", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--gate", action="store_true", help="only what the gate tries")
    given = parser.parse_args(arguments)
    chosen = [
        number
        for number, case in enumerate(cases(every=not given.gate))
        if all(
            (word.removeprefix("no:") in case.id) != word.startswith("no:") for word in given.words
        )
    ]
    kinds: Counter[str] = Counter()
    cpu = 0.0
    parts = [(given.gate, chosen[first : first + 50]) for first in range(0, len(chosen), 50)]
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(_run, parts):
            for case_id, broken, took in found:
                cpu += took
                if broken:
                    print(f"{case_id}: {broken}", flush=True)
                kinds.update(broken.keys())
    print(f"{len(chosen)} cases, {dict(kinds)}, {cpu:.0f} s of CPU time")
    return 1 if kinds else 0


def _run(part: tuple[bool, Sequence[int]]) -> list[tuple[str, dict[str, str], float]]:
    gate, numbers = part
    wanted = set(numbers)
    found = []
    for number, case in enumerate(cases(every=not gate)):
        if number in wanted:
            began = time.process_time()
            broken = broken_promises(case)
            found.append((case.id, broken, time.process_time() - began))
    return found


if __name__ == "__main__":
    sys.exit(main())
