"""A reader's process that counts calls of Python functions on both threads."""

from __future__ import annotations

import pstats
import sys
from cProfile import Profile

from benchmarks.child import Task, run
from tandem_kafka.engine.loop import NetworkLoop

__all__: list[str] = []

_LINES = 25


def main() -> None:
    """Run as `python -m benchmarks.calls <task>`."""
    application, network = Profile(), Profile()
    turn = NetworkLoop.run_once

    def counted(loop: NetworkLoop) -> None:
        network.runcall(turn, loop)

    setattr(NetworkLoop, turn.__name__, counted)  # the thread calls only this function
    print(application.runcall(run, Task.from_json(sys.argv[1])))
    for name, profile in (("application", application), ("network", network)):
        print(f"\nthe {name} thread")
        pstats.Stats(profile).sort_stats("tottime").print_stats(_LINES)


if __name__ == "__main__":
    main()
