"""The options in `help()` and in completions: made when asked for, so that no import waits."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import Any, Final, TypeVar

from tandem_kafka.config.config import Config, default_config
from tandem_kafka.config.option import option_of

T = TypeVar("T", bound=type)

_WIDTH: Final = 88


class _Doc:
    """The docstring of a consumer, and its options."""

    def __init__(self, text: str | None) -> None:
        self._text = text or ""

    def __get__(self, _: object, owner: type) -> str:
        return "\n".join((self._text.rstrip(), "", "    Options:", *_lines(), ""))


class _Signature:
    """The signature of a consumer, with its options by name."""

    def __init__(self, init: object) -> None:
        self._init = init

    def __get__(self, _: object, owner: Any) -> Signature:
        if owner.__init__ is not self._init:
            raise AttributeError("__signature__")  # of a subclass with a constructor of its own
        options = (
            Parameter(name, Parameter.KEYWORD_ONLY, default=value)
            for name, value in default_config().items()
        )
        topics = Parameter("topics", Parameter.VAR_POSITIONAL)
        others = Parameter("options", Parameter.VAR_KEYWORD)  # their former names
        return Signature([topics, *options, others])


def described(kind: T) -> T:
    """Let `help()` and completions of a consumer know its options."""
    described: Any = kind
    described.__doc__ = _Doc(kind.__doc__)
    described.__signature__ = _Signature(described.__init__)
    return kind


def _lines() -> Iterator[str]:
    default = default_config()
    for spec in dataclasses.fields(Config):
        known = option_of(spec)
        shown = known.shown_default or repr(default[spec.name])
        text = f"{spec.name}: {known.doc} Default: {shown}."
        yield textwrap.fill(
            text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
