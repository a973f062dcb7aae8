"""Dataclasses that are imported in a fifth of the time.

A consumer has a hundred small classes. For each, the standard decorator compiles up to eight
functions, which was a third of the time of `import tandem_kafka`; this one compiles `__init__`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, field
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

__all__ = ["dataclass", "field"]

T = TypeVar("T")


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a class of this package that users do not make.

    `dataclasses.fields()`, `replace()` and `asdict()` know its fields.

    Args:
        frozen: Only type checkers know it. It makes objects with `eq` hashable.
        eq: Whether objects with equal fields are equal.
        kw_only: Whether all fields are given by name.
    """

    def decorated(cls: type[T]) -> type[T]:
        made: Any = dataclasses.dataclass(
            init=False, repr=False, eq=False, kw_only=kw_only, slots=True
        )(cls)
        fields = dataclasses.fields(made)
        made.__init__ = _init(made, fields)
        if "__repr__" not in vars(made):
            made.__repr__ = _repr
        if eq:
            made._values = staticmethod(  # noqa: SLF001
                attrgetter("__class__", *(each.name for each in fields))
            )
            made.__eq__ = _eq
            made.__hash__ = _hash if frozen else None
        return made  # type: ignore[no-any-return]

    return decorated


def _init(cls: type, fields: tuple[Field[Any], ...]) -> Any:
    """Compile `__init__`."""
    known: dict[str, Any] = {"__name__": cls.__module__, "_MISSING": MISSING}
    positional, by_name, lines = ["self"], list[str](), list[str]()
    for each in fields:
        name = each.name
        parameter, value = name, name
        if each.default is not MISSING:
            known[f"_{name}"] = each.default
            parameter = f"{name}=_{name}"
        elif each.default_factory is not MISSING:
            known[f"_{name}"] = each.default_factory
            parameter, value = f"{name}=_MISSING", f"_{name}() if {name} is _MISSING else {name}"
        (by_name if each.kw_only else positional).append(parameter)
        lines.append(f" self.{name}={value}\n")
    parameters = ",".join([*positional, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({parameters}):\n{''.join(lines) or ' pass'}", known)  # noqa: S102
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


@recursive_repr()
def _repr(self: Any) -> str:
    fields = (each for each in dataclasses.fields(self) if each.repr)
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._values(self) == self._values(other)


def _hash(self: Any) -> int:
    return hash(self._values(self))
