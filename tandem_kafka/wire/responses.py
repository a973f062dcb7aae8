"""What is done to each response when it has been decoded.

kafka-python's decoders accept null for any array or string, even if the schema does not allow it.
With `reject_nulls`, an invalid response is an error of its request. Otherwise it would cause errors
in the code that uses it later.

Texts for people, the fields `ErrorMessage`, are cleaned here, so no code that makes an error of one
has to. Other strings are names, which must stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

from kafka.protocol.schemas.fields.base import BaseField

#: Names of fields that must not be null, and the plans of nested structs by field name.
_Required = tuple[tuple[str, ...], tuple[tuple[str, "_Required", bool], ...]]
#: Names of texts, and the plans of nested structs by field name.
_Texts = tuple[tuple[str, ...], tuple[tuple[str, "_Texts"], ...]]

_MAY_BE_NULL_ON_THE_WIRE = frozenset({"string", "bytes", "records"})


def reject_nulls(answer: Any, version: int) -> None:
    """Check all arrays, strings and structs of a decoded message.

    Raises:
        ValueError: A field is null, but must not be null in this version.
    """
    _check(answer, _required_of(type(answer), version), "")  # type: ignore[arg-type]


def _check(container: Any, plan: _Required, path: str) -> None:
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
def _required_of(message: Hashable, version: int) -> _Required:
    return _required(message._struct, version)  # type: ignore[attr-defined]  # noqa: SLF001


def _required(struct: Any, version: int) -> _Required:
    required: list[str] = []
    structs: list[tuple[str, _Required, bool]] = []
    for field in struct.untagged_fields(version):
        if not field.nullable_for_version_q(version) and _can_be_null(field):
            required.append(field.name)
        if field.is_struct() or field.is_struct_array():
            structs.append((field.name, _required(field, version), field.is_struct_array()))
    return tuple(required), tuple(structs)


def _can_be_null(field: BaseField) -> bool:
    return bool(field.is_array()) or field.type_str in _MAY_BE_NULL_ON_THE_WIRE


def clean_texts(message: Any, clean: Callable[[str], str]) -> None:
    """Replace each text in a decoded message with what `clean` makes of it."""
    _clean(message, _texts_of(type(message)), clean)  # type: ignore[arg-type]


def _clean(container: Any, plan: _Texts, clean: Callable[[str], str]) -> None:
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
def _texts_of(message: Hashable) -> _Texts:
    return _texts(message.fields)  # type: ignore[attr-defined]


def _texts(fields: Any) -> _Texts:
    """Return a plan without structs that have no texts."""
    nested = [(name, _texts(field.fields)) for name, field in fields.items() if field.fields]
    return (
        tuple([name for name in fields if name.endswith("error_message")]),
        tuple([(name, inner) for name, inner in nested if any(inner)]),
    )
