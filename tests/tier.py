"""What runs every day, and what only `pytest --all` runs: more seeds, and every bytecode."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Final

import pytest

__all__ = ["ALL", "bytecodes", "examples", "sample", "seeds"]

#: Is set where everything runs, also in the processes of the run.
ALL: Final = "TANDEM_KAFKA_ALL"

#: Every day an interrupt comes at each seventh bytecode.
_STEP: Final = 7


def sample(values: Iterable[Any], everyday: int) -> list[Any]:
    """Return parameters of a test, all but the first of them marked `full`."""
    more = pytest.mark.full("more of the same")
    sampled = list(values)
    for number, each in enumerate(sampled[everyday:], start=everyday):
        known = isinstance(each, type(pytest.param()))
        several = each.values if known else each if isinstance(each, tuple) else (each,)
        sampled[number] = pytest.param(*several, id=each.id if known else None, marks=more)
    return sampled


def seeds(everyday: int, most: int) -> list[Any]:
    """Return the seeds from 0 on; TANDEM_KAFKA_SEEDS=1000-2000 names others."""
    if chosen := os.environ.get("TANDEM_KAFKA_SEEDS"):
        return list(range(*map(int, chosen.split("-"))))
    return sample(range(most), everyday)


def bytecodes(step: int = 1) -> Iterator[int]:
    """Count where interrupts come."""
    return count(step=step if os.environ.get(ALL) else step * _STEP)


def examples(most: int) -> int:
    """Return how many examples Hypothesis tries."""
    return most if os.environ.get(ALL) else max(20, most // 4)
