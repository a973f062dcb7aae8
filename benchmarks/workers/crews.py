"""The compared ways of handling records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["CREWS", "Crew"]


@dataclass(frozen=True, slots=True)
class Crew:
    """One way of handling records.

    Attributes:
        title: The name in results.
        kind: ``loop``, ``threads``, ``processes`` or ``tasks``.
        workers: Number of threads, processes or tasks.

    """

    title: str
    kind: str
    workers: int = 1


CREWS: Final[Mapping[str, Crew]] = {
    "workers-loop": Crew("a loop over poll()", "loop"),
    **{
        f"workers-{kind}-{workers}": Crew(f"{title}, workers={workers}", kind, workers)
        for kind, title in (("threads", "KeyedWorkers"), ("tasks", "AsyncKeyedWorkers"))
        for workers in (16, 64)
    },
    "workers-processes-16": Crew("KeyedWorkers, ProcessPoolExecutor(16)", "processes", 16),
    "workers-processes-2": Crew("KeyedWorkers, ProcessPoolExecutor(2)", "processes", 2),
}
