"""Runs a test with many seeds."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.tier import ALL

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
