"""Avro for tests: schemas, values of them as fastavro writes them, and a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from tandem_kafka.tables import Avro  # noqa: E402 - it imports pyarrow


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + encoded(schema, value)


def decoded(decoder: Avro, *values: bytes | None) -> tuple[list[Any], list[tuple[int, str]]]:
    column, failures = decoder.decode(pa.array(values, pa.binary()))
    column.validate(full=True)
    assert len(column) == len(values)
    return column.to_pylist(), list(failures)


def record(*fields: tuple[Any, ...], name: str = "R", **attributes: Any) -> dict[str, Any]:
    """Return the schema of a record; a field is its name, its type and perhaps its default."""
    parts = ("name", "type", "default")
    listed = [dict(zip(parts, field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": listed, **attributes}


def logical(kind: str, meant: str, /, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meant, **attributes}


class Registry:
    """A registry of what it was given; it raises an exception in place of a schema."""

    def __init__(self, **schemas: Any) -> None:
        self.schemas: dict[str, Any] = schemas
        self.references: dict[str, Sequence[tuple[str, int]]] = {}
        self.asked: list[str] = []
        #: Subjects that were soft-deleted.
        self.deleted: set[str] = set()

    def get_schema(self, schema_id: int) -> Any:
        return self._found(f"s{schema_id}")

    def get_version(self, subject_name: str, version: int, *, deleted: bool) -> Any:
        if not deleted and subject_name in self.deleted:
            raise status(404, 40401)
        return SimpleNamespace(schema=self._found(f"{subject_name}{version}"))

    def _found(self, name: str) -> Any:
        self.asked.append(name)
        schema = self.schemas.get(name, status(404, 40403))
        if isinstance(schema, Exception):
            raise schema
        references = [
            SimpleNamespace(name=subject, subject=subject, version=version)
            for subject, version in self.references.get(name, ())
        ]
        return SimpleNamespace(schema_str=json.dumps(schema), references=references)


def status(code: int, error_code: int = -1) -> Exception:
    error = ConnectionError(f"HTTP {code}")
    error.__dict__.update(http_status_code=code, error_code=error_code)
    return error


FIXED = {"type": "fixed", "name": "F", "size": 2}
COLOR = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}
