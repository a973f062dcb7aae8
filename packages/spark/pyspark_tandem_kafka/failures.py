"""Errors for display by Spark: the message first, then the traceback.

Spark sends a worker's `traceback.format_exc()` to the driver and adds its own heading. A traceback
begins with the cause of an error. An error that leaves this package therefore gets a cause that
consists of its message only. Spark's "simplified tracebacks" reset `__cause__`, so `__cause__` is
a property that ignores assignments.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from tandem_kafka.errors import InvalidArgumentError, KafkaConfigurationError, KafkaError

P = ParamSpec("P")
R = TypeVar("R")


class MistakeError(KafkaError):
    """An error that the user can correct; it is shown without our part of the traceback."""


class _Sentence(Exception):  # noqa: N818 - its name is what users read
    """Printed as `tandem_kafka: <sentence>`; never raised, so it has no traceback."""


_Sentence.__name__ = _Sentence.__qualname__ = "tandem_kafka"
_Sentence.__module__ = "builtins"


class _SentenceFirst:
    """A mixin for the class of an error that Spark will show."""

    @property
    def __cause__(self) -> BaseException:
        return _Sentence(sentence_of(self))  # type: ignore[arg-type]

    @__cause__.setter
    def __cause__(self, value: object) -> None:
        """Ignore what Spark sets."""


def sentence_of(error: BaseException) -> str:
    """Return an error's message on one line, without the name of its class."""
    text = str(error).removeprefix(f"{type(error).__name__}: ")
    return " ".join(text.split())


def sentence_first(method: Callable[P, R]) -> Callable[P, R]:
    """Have the errors of a method, or of a generator, begin with their sentence in Spark."""
    if inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def generated(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
            try:
                yield from method(*args, **kwargs)
            except KafkaError as error:
                raise _shown(error)  # noqa: B904 - the same error

        return generated  # type: ignore[return-value]

    @functools.wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except KafkaError as error:
            raise _shown(error)  # noqa: B904 - the same error

    return called


def _shown(error: KafkaError) -> KafkaError:
    kind = type(error)
    if not issubclass(kind, _SentenceFirst):
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        error.__class__ = type(kind.__name__, (_SentenceFirst, kind), names)
    if isinstance(error, (MistakeError, InvalidArgumentError, KafkaConfigurationError)):
        return error.with_traceback(None)
    return error
