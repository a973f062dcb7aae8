"""Errors as Spark shows them: our sentence first, then the traceback.

Spark sends `traceback.format_exc()` of a worker to the driver and puts its own words in front. A
traceback begins with the cause of an error, so an error that leaves this package gets a cause that
is the sentence alone. Spark's "simplified tracebacks" reset `__cause__`: hence a class with a
property of that name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from tandem_kafka.errors import InvalidArgumentError, KafkaConfigurationError, KafkaError

__all__ = ["MistakeError", "sentence_first", "sentence_of"]

P = ParamSpec("P")
R = TypeVar("R")


class MistakeError(KafkaError):
    """What a user can put right; the lines of code that noticed it say nothing more."""


class _Sentence(Exception):  # noqa: N818 - its name is what users read
    """Printed as `tandem_kafka: <sentence>`, and without a traceback, as it was never raised."""


_Sentence.__name__ = _Sentence.__qualname__ = "tandem_kafka"
_Sentence.__module__ = "builtins"


class _SentenceFirst:
    """Mixed into the class of an error on its way to Spark."""

    @property
    def __cause__(self) -> BaseException:
        return _Sentence(sentence_of(self))  # type: ignore[arg-type]

    @__cause__.setter
    def __cause__(self, value: object) -> None:
        """Keep the sentence, whatever Spark sets."""


def sentence_of(error: BaseException) -> str:
    """Return an error's message without the name of its class, in one line."""
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
                raise _shown(error)  # noqa: B904 - it is the same error

        return generated  # type: ignore[return-value]

    @functools.wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except KafkaError as error:
            raise _shown(error)  # noqa: B904 - it is the same error

    return called


def _shown(error: KafkaError) -> KafkaError:
    kind = type(error)
    if not issubclass(kind, _SentenceFirst):
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        error.__class__ = type(kind.__name__, (_SentenceFirst, kind), names)
    if isinstance(error, (MistakeError, InvalidArgumentError, KafkaConfigurationError)):
        return error.with_traceback(None)
    return error
