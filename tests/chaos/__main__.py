"""The command: `python -m tests.chaos --seconds 300`."""

from __future__ import annotations

import argparse
import secrets
import time
from contextlib import closing

from tests.chaos.member import PROTOCOLS
from tests.chaos.run import Chaos


def main() -> None:
    """Run, print a line for every fault, and exit with 1 if an invariant is violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="how long to inject faults (300)"
    )
    parser.add_argument(
        "--members", type=int, default=3, help="members of each of the three groups (3)"
    )
    parser.add_argument("--seed", type=int, help="selects the faults (default: random)")
    parser.add_argument(
        "--only-share", action="store_true", help="run the share group, and no other group"
    )
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {line}", flush=True)

    say(f"seed {seed}")
    protocols = () if arguments.only_share else tuple(PROTOCOLS)
    with closing(Chaos(seed, arguments.members, say, protocols)) as chaos:
        read = chaos.run(arguments.seconds)
    seconds, what = chaos.worst
    say(
        f"{chaos.faults} faults survived, {read:,} records read and committed, none lost; "
        f"longest time in which a partition was not read {seconds:.1f} s ({what}); "
        f"{chaos.repeated:,} records were returned twice, {chaos.corrupted} bytes corrupted"
    )
    say(f"share group: {chaos.shared}")


if __name__ == "__main__":
    main()
