"""The options in `help()` and in completions: made when asked for, so that no import waits."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Container, Iterator
from inspect import Parameter, Signature
from typing import Any, Final, TypeVar

from tandem_kafka.config.config import Config, default_config
from tandem_kafka.config.option import option_of

T = TypeVar("T", bound=type)

_WIDTH: Final = 88


class _Doc:
    """The docstring of a consumer, and its options."""

    def __init__(self, text: str | None, without: Container[str]) -> None:
        self._text = inspect.cleandoc(text or "")  # Python 3.13 has removed the indentation
        self._without = without

    def __get__(self, _: object, owner: type) -> str:
        return "\n".join((self._text, "", "Options:", *_lines(self._without), "")).lstrip()


class _Signature:
    """The signature of a consumer, with its options by name."""

    def __init__(self, kind: type, without: Container[str]) -> None:
        self._made_by = kind.__new__, kind.__init__  # type: ignore[misc]  # of the class
        self._own = tuple(inspect.signature(kind).parameters.values())
        self._without = without

    def __get__(self, _: object, owner: Any) -> Signature:
        if (owner.__new__, owner.__init__) != self._made_by:
            raise AttributeError("__signature__")  # of a subclass with a constructor of its own
        *own, others = self._own  # the others have their former names
        options = (
            Parameter(name, Parameter.KEYWORD_ONLY, default=value)
            for name, value in default_config().items()
            if name not in self._without
        )
        return Signature([*own, *options, others])


def described(without: Container[str] = ()) -> Callable[[T], T]:
    """Let `help()` and completions of a consumer know its options.

    Args:
        without: The options that it does not take.
    """

    def describe(kind: T) -> T:
        described: Any = kind
        described.__doc__ = _Doc(kind.__doc__, without)
        described.__signature__ = _Signature(kind, without)
        return kind

    return describe


def _lines(without: Container[str]) -> Iterator[str]:
    default = default_config()
    for spec in dataclasses.fields(Config):
        if spec.name in without:
            continue
        known = option_of(spec)
        shown = known.shown_default or repr(default[spec.name])
        text = f"{spec.name}: {known.doc} Default: {shown}."
        yield textwrap.fill(
            text, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
