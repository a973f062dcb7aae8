"""Answers that lack what every answer of their version has.

kafka-python's decoders take a null for any array or string; the schema says where one may stand.
Found here, a wrong answer is an error of its request, and not of whoever looks into it later.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

from kafka.protocol.schemas.fields.base import BaseField

__all__ = ["refuse_nulls"]

#: Names of fields that must be there, and structs by the name of their field.
_Plan = tuple[tuple[str, ...], tuple[tuple[str, "_Plan", bool], ...]]

_MAY_BE_NULL_ON_THE_WIRE = frozenset({"string", "bytes", "records"})


def refuse_nulls(answer: Any, version: int) -> None:
    """Look at every array, string and struct of a decoded message.

    Raises:
        ValueError: One is null that must not be in this version.
    """
    _check(answer, _plan_of(type(answer), version), "")  # type: ignore[arg-type]


def _check(container: Any, plan: _Plan, path: str) -> None:
    required, structs = plan
    for name in required:
        if getattr(container, name) is None:
            raise ValueError(f"{path}{name} is null")
    for name, inner, many in structs:
        found = getattr(container, name)
        if found is not None:
            for each in found if many else (found,):
                _check(each, inner, f"{path}{name}.")


@cache
def _plan_of(message: Hashable, version: int) -> _Plan:
    return _plan(message._struct, version)  # type: ignore[attr-defined]  # noqa: SLF001


def _plan(struct: Any, version: int) -> _Plan:
    required: list[str] = []
    structs: list[tuple[str, _Plan, bool]] = []
    for field in struct.untagged_fields(version):
        if not field.nullable_for_version_q(version) and _can_be_null(field):
            required.append(field.name)
        if field.is_struct() or field.is_struct_array():
            structs.append((field.name, _plan(field, version), field.is_struct_array()))
    return tuple(required), tuple(structs)


def _can_be_null(field: BaseField) -> bool:
    return bool(field.is_array()) or field.type_str in _MAY_BE_NULL_ON_THE_WIRE
