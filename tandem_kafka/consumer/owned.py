"""What every public method has in common: one owner at a time, and never after close()."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from tandem_kafka.consumer.core import Core, guarded

__all__ = ["Owned", "owned"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Owned")


class Owned:
    """An object whose methods belong to one thread at a time."""

    _core: Core


def owned(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let one thread at a time in, and none once the consumer is closed."""

    @functools.wraps(method)
    def entered(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        core = self._core
        held = core.acquire()
        try:
            return method(self, *args, **kwargs)
        finally:
            held.release()

    guarded(entered)
    return entered
