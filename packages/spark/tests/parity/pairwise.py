"""Combinations in which every pair of values occurs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["pairwise"]

_Pair = frozenset[tuple[str, str]]


def pairwise(axes: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yield few combinations of one value of each axis that contain all pairs of values.

    The same axes give the same combinations, in the same order.
    """
    left: dict[_Pair, None] = {
        frozenset(((one, a), (other, b))): None
        for one, other in itertools.combinations(axes, 2)
        for a in axes[one]
        for b in axes[other]
    }
    while left:
        chosen = dict(sorted(next(iter(left))))
        for axis in sorted(axes, key=lambda name: -len(axes[name])):
            if axis not in chosen:
                taken = list(chosen.items())
                chosen[axis] = max(
                    axes[axis],
                    key=lambda value, axis=axis, taken=taken: sum(
                        frozenset(((axis, value), each)) in left for each in taken
                    ),
                )
        for pair in itertools.combinations(chosen.items(), 2):
            left.pop(frozenset(pair), None)
        yield {axis: chosen[axis] for axis in axes}
