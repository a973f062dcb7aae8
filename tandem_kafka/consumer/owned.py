"""Which methods which thread may call: most of them any, at any time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.errors import KafkaTimeoutError

__all__ = ["Owned", "shared", "steering"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Owned")


class Owned:
    """An object whose methods go through a core."""

    _core: Core


def shared(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let any thread call a method, beside a poll() too, until the consumer is closed.

    Such a method asks the network thread or reads a snapshot; it touches nothing of the reader's.
    """

    @functools.wraps(method)
    def entered(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._core.check_usable()
        return method(self, *args, **kwargs)

    return entered


def steering(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let any thread change what is read: a poll() of another thread stops for it, and goes on."""

    @functools.wraps(method)
    def entered(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        core = self._core
        core.check_usable()
        visit = core.visit(core.deadline_ms(None))
        if visit is None:
            msg = (
                f"{method.__name__}() had to wait too long for the thread that reads: "
                "a rebalance listener or deserializer of its does not end"
            )
            raise KafkaTimeoutError(msg)
        try:
            core.check_usable()
            return method(self, *args, **kwargs)
        finally:
            visit.release()

    guarded(entered)
    return entered
