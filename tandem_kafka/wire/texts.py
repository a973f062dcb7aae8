"""Texts of brokers for people: the fields `ErrorMessage` of responses.

They are cleaned where a response is decoded, so no code that makes an error of one has to. Other
strings are names, which must stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

#: Names of texts, and the plans of nested structs by field name.
_Plan = tuple[tuple[str, ...], tuple[tuple[str, "_Plan"], ...]]


def clean_texts(message: Any, clean: Callable[[str], str]) -> None:
    """Replace each text in a decoded message with what `clean` makes of it."""
    _clean(message, _plan_of(type(message)), clean)  # type: ignore[arg-type]


def _clean(container: Any, plan: _Plan, clean: Callable[[str], str]) -> None:
    texts, structs = plan
    for name in texts:
        text = getattr(container, name)
        if text:
            setattr(container, name, clean(text))
    for name, inner in structs:
        found = getattr(container, name)
        for each in found if isinstance(found, list) else (found,) if found else ():
            _clean(each, inner, clean)


@cache
def _plan_of(message: Hashable) -> _Plan:
    return _plan(message.fields)  # type: ignore[attr-defined]


def _plan(fields: Any) -> _Plan:
    """Return a plan without structs that have no texts."""
    nested = [(name, _plan(field.fields)) for name, field in fields.items() if field.fields]
    return (
        tuple([name for name in fields if name.endswith("error_message")]),
        tuple([(name, inner) for name, inner in nested if any(inner)]),
    )
