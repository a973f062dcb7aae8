"""How fast the machine is that runs the tests."""

from __future__ import annotations

import time
from functools import cache

__all__ = ["slowness"]

#: How long the piece of Python below takes on an idle core of the machine that bounds were set on.
_REFERENCE_S = 0.1
_TURNS = 1_000_000


@cache
def slowness() -> float:
    """Return how many times slower this machine is now than the reference, but at least 1.0.

    It is measured once per process. Bounds on real time are multiplied by it.
    """
    began = time.perf_counter()
    total = 0
    for number in range(_TURNS):
        total += number ^ total & 0xFF
    return max(1.0, (time.perf_counter() - began) / _REFERENCE_S)
