"""Rejects responses with null in fields that must not be null.

kafka-python's decoders accept null for any array or string, even if the schema does not allow it.
With this check, an invalid response is an error of its request. Otherwise it would cause errors in
the code that uses it later.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

from kafka.protocol.schemas.fields.base import BaseField

#: Names of fields that must not be null, and the plans of nested structs by field name.
_Plan = tuple[tuple[str, ...], tuple[tuple[str, "_Plan", bool], ...]]

_MAY_BE_NULL_ON_THE_WIRE = frozenset({"string", "bytes", "records"})


def reject_nulls(answer: Any, version: int) -> None:
    """Check all arrays, strings and structs of a decoded message.

    Raises:
        ValueError: A field is null, but must not be null in this version.
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
