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
    """Return parameters of a test, marked `full` behind the first `everyday` of them."""
    sampled = list(values)
    return [*sampled[:everyday], *map(_full, sampled[everyday:])]


def _full(value: Any) -> Any:
    """Mark one parameter; a tuple has the values of several."""
    more = pytest.mark.full("more of the same")
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, more])
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=more)


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
    return most if os.environ.get(ALL) else max(10, most // 6)
