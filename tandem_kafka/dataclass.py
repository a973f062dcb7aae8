"""`dataclasses.dataclass` for classes with slots, made in a fifth of the time.

A consumer has a hundred of them. The standard library compiles up to six methods for each; here,
only `__init__` is compiled, and the classes share the other methods. What `dataclasses.fields`,
`replace` and others ask a class for is made when they ask.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

#: The fields of a class by name, with those of its bases.
_FIELDS: Final = "_fields_by_name"


class _Shared:
    """The methods that the classes have in common."""

    _fields_by_name: dict[str, Any]

    def __repr__(self) -> str:
        fields = self._fields_by_name.items()
        shown = (f"{name}={getattr(self, name)!r}" for name, each in fields if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        same = type(other) is type(self)
        return _values(self) == _values(other) if same else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(_values(self)))

    def __getstate__(self) -> list[Any]:
        return _values(self)

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip(self._fields_by_name, state, strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


_STATE: Final = ("__getstate__", "__setstate__")
_FROZEN: Final = ("__setattr__", "__delattr__")


def _values(of: Any) -> list[Any]:
    return [getattr(of, name) for name in getattr(of, _FIELDS)]


class _OnDemand:
    """An attribute that the standard library gives a dataclass; it makes one to know it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, _: object, owner: type) -> Any:
        known: dict[str, Any] = getattr(owner, _FIELDS)
        members: dict[str, Any] = {"__annotations__": {name: known[name].type for name in known}}
        for name, each in known.items():
            given = ("default", "default_factory", "init", "repr", "kw_only")
            members[name] = field(**{option: getattr(each, option) for option in given})
        twin: Any = dataclasses.dataclass(**self._options)(type(owner.__name__, (), members))
        return getattr(twin, self._name)


def _own_fields(cls: type, *, kw_only: bool) -> dict[str, Any]:
    found = {}
    for name, kind in get_annotations(cls).items():
        if not str(kind).startswith("ClassVar"):
            default = vars(cls).get(name, MISSING)
            each: Any = default if isinstance(default, Field) else field(default=default)
            each.name, each.type, each.kw_only = name, kind, kw_only
            found[name] = each
    return found


def _init(cls: Any, fields: dict[str, Any], *, frozen: bool) -> Any:
    """Compile `__init__`; that of a frozen class stores through the slots."""
    scope: dict[str, Any] = {}
    given: list[str] = ["self"]
    named: list[str] = []
    body: list[str] = []
    for name, each in fields.items():
        parameter = value = name
        if each.default is not MISSING:
            scope[f"_{name}_default"] = each.default
            parameter += f"=_{name}_default"
            value = name if each.init else f"_{name}_default"
        elif each.default_factory is not MISSING:
            scope["_missing"], scope[f"_{name}_make"] = MISSING, each.default_factory
            parameter += "=_missing"
            value = f"_{name}_make() if {name} is _missing else {name}"
            value = value if each.init else f"_{name}_make()"
        if each.init:
            (named if each.kw_only else given).append(parameter)
        scope[f"_{name}_set"] = getattr(cls, name).__set__
        body.append(f"  _{name}_set(self, {value})" if frozen else f"  self.{name} = {value}")
    parameters = ", ".join([*given, "*", *named] if named else given)
    lines = [f" def __init__({parameters}):", *(body or ["  pass"]), " return __init__"]
    made: dict[str, Any] = {}
    source = "\n".join([f"def make({', '.join(scope)}):", *lines])
    exec(source, vars(sys.modules[cls.__module__]), made)  # noqa: S102 - as the standard library does
    init = made["make"](**scope)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {name: each.type for name, each in fields.items() if each.init}
    init.__annotations__["return"] = None
    return init


def _dataclass(
    *, slots: bool, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type], type]:
    if not slots:
        raise TypeError("use dataclasses.dataclass for a class without slots")
    options = {"frozen": frozen, "eq": eq}
    shared = ["__repr__", *(_STATE + _FROZEN if frozen else ()), *(["__eq__"] if eq else ())]

    def decorate(cls: type) -> type:
        own = _own_fields(cls, kw_only=kw_only)
        fields: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            fields |= vars(base).get(_FIELDS, {})
        fields |= own
        left_out = {*own, "__dict__", "__weakref__"}
        members = {name: each for name, each in vars(cls).items() if name not in left_out}
        for name in shared:
            members.setdefault(name, vars(_Shared)[name])
        if eq:
            members["__hash__"] = _Shared.__hash__ if frozen else None
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            members[name] = _OnDemand(options)
        members["__slots__"], members[_FIELDS] = tuple(own), fields
        members["__match_args__"] = tuple(name for name, each in fields.items() if not each.kw_only)
        made: Any = type(cls)(cls.__name__, cls.__bases__, members)
        made.__qualname__ = cls.__qualname__
        made.__init__ = _init(made, fields, frozen=frozen)
        return made  # type: ignore[no-any-return]

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
