"""Copies of named tuples that no profiler can break."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def replaced(given: T, **changes: Any) -> T:
    """Return a named tuple with other values.

    Invariant: `_replace`, `_make` and `tuple()` of an iterator change the size of a new tuple,
    which CPython refuses with SystemError if `gc.get_objects()` of a memory profiler, on another
    thread, has found it by then. That would end the network thread.
    """
    fields: dict[str, Any] = given._asdict()  # type: ignore[attr-defined]
    return type(given)(**(fields | changes))
