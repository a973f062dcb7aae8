"""Decorators for calls that any caller may make while another one polls.

There are three kinds of methods. `poll()` and iteration are for the *reader*: they hold the lock of
the core, and a second reader is rejected. Those for `any_thread` take no lock: they read a value
that is replaced as a whole, or send an event and wait. Those that need the open chunks and the
listener of the reader suspend its poll (`suspends_poll`), between two iterations of its loop.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.errors import KafkaTimeoutError

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="WithCore")
PartT = TypeVar("PartT", bound=type)


class WithCore:
    """Base of the classes whose methods use a core."""

    _core: Core


def _names_of(method: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a method's arguments: once, not in each call."""
    code = inspect.unwrap(method).__code__
    names: tuple[str, ...] = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return names


def _check_names(method: Callable[..., Any], names: tuple[str, ...], given: Iterable[str]) -> None:
    """Reject names of other clients, such as `on_assign`; Python would name an internal class."""
    unknown = [name for name in given if name not in names]
    if unknown:
        takes = f"it takes {', '.join(names)}" if names else "it takes none by name"
        msg = f"{method.__name__}() has no argument {unknown[0]!r}; {takes}"
        raise TypeError(msg)


def part_of_consumers(part: PartT) -> PartT:
    """Name the methods of a part without it: errors about wrong arguments show the name."""
    for name, found in vars(part).items():
        method = found
        while isinstance(method, FunctionType):
            method.__qualname__ = name
            method = getattr(method, "__wrapped__", None)
    return part


def any_thread(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let any caller use a method or coroutine, even during a poll(), until the consumer is closed.

    The method may send events to the network thread and read snapshots. It must not use the state
    of the reader.
    """
    names = _names_of(method)
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def awaited(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            if kwargs:
                _check_names(method, names, kwargs)
            self._core.check_usable()
            return await method(self, *args, **kwargs)

        return cast("Callable[Concatenate[S, P], R]", awaited)

    @functools.wraps(method)
    def entered(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            _check_names(method, names, kwargs)
        self._core.check_usable()
        return method(self, *args, **kwargs)

    return entered


def suspends_poll(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Let any caller change the subscription; a poll() of another caller is suspended for it."""
    names = _names_of(method)

    @functools.wraps(method)
    async def entered(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            _check_names(method, names, kwargs)
        core = self._core
        core.check_usable()
        suspension = await core.suspend_poll(core.deadline_ms(None))
        if suspension is None:
            msg = (
                f"{method.__name__}() timed out waiting for the {core.callers.kind} that is "
                "polling: its rebalance listener or deserializer did not return within "
                "default_api_timeout_ms"
            )
            raise KafkaTimeoutError(msg)
        try:
            core.check_usable()
            return await method(self, *args, **kwargs)
        finally:
            suspension.release()

    guarded(entered)
    return entered
