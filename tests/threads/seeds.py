"""Runs a test with many seeds, or with a switch of threads at each line."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count

from tests.threads.lockstep import Lockstep
from tests.tier import ALL

#: A test without more lines has traced the wrong modules.
FEW_LINES = 10

SEEDS = range(200 if os.environ.get(ALL) else 80)


def each_seed(test: Callable[[int], None]) -> Callable[[], None]:
    """Run a test once per seed; a failure names its seed."""

    def run() -> None:
        for seed in SEEDS:
            try:
                test(seed)
            except BaseException as error:
                error.add_note(f"with seed {seed}")
                raise

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


def each_line(test: Callable[[int], Lockstep]) -> Callable[[], None]:
    """Run a test once per line of its first thread, at which the others run; see `Lockstep`."""

    def run() -> None:
        for at in count():
            try:
                switched = test(at).switched
            except BaseException as error:
                error.add_note(f"at line {at}")
                raise
            if not switched:
                assert at > FEW_LINES
                return

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run
