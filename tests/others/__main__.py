"""`python -m tests.others`: tests of other clients that nobody wrote for this project.

Those of kafka-python run with this consumer, those of franz-go on the simulated cluster.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter

from tests.others import franz_go, kafka_python
from tests.others.suite import problems

_CLIENTS = {module.SUITE.package: module for module in (kafka_python, franz_go)}


def main() -> int:
    """Print the results, and what differs from the tables; returns 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.others", description=__doc__)
    parser.add_argument("client", nargs="?", choices=_CLIENTS, help="only its tests")
    chosen = parser.parse_args().client
    if not chosen and not shutil.which("go"):
        print("no go: the tests of franz-go do not run")
        chosen = kafka_python.SUITE.package
    wrong: list[str] = []
    for client in [chosen] if chosen else _CLIENTS:
        suite = _CLIENTS[client].SUITE
        original, ours = _CLIENTS[client].run()
        for where, verdicts in ((suite.control, original), ("here", ours)):
            counts = [f"{count} {kind}" for kind, count in Counter(verdicts.values()).items()]
            print(f"{client} {where}: {len(verdicts)} tests, {', '.join(counts)}", flush=True)
        wrong += sorted(problems(suite, original, ours))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
