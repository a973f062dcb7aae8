"""The encoding of orders, including broken ones, and the expected reasons for dead letters."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

from pipeline.orders import Customer, Entry, Kind

__all__ = ["AVRO_SCHEMA", "customer_value", "encoder", "reason"]

AVRO_SCHEMA: Final = Path(__file__).parents[3] / "examples" / "pipeline" / "order.avsc"

_DAY_MS: Final = 86_400_000
_UNKNOWN_SCHEMA: Final = 4_711

_NOT_AVRO: Final = "not Avro of a schema in the registry"
_REASONS: Final = {
    Kind.CUT_OFF: {"json": "not JSON", "avro": _NOT_AVRO},
    Kind.INCOMPLETE: {"json": "no customer", "avro": _NOT_AVRO},
    Kind.WRONG_TYPE: {"json": "a field has the wrong type", "avro": _NOT_AVRO},
    Kind.WORTHLESS: dict.fromkeys(("json", "avro"), "cents is not positive"),
    Kind.FROM_THE_FUTURE: dict.fromkeys(("json", "avro"), "at_ms lies in the future"),
}


def reason(kind: Kind, form: str) -> str:
    """Return the reason for a dead letter; `form` is json or avro."""
    return _REASONS[kind][form]


def customer_value(customer: Customer) -> bytes | None:
    """Return the value of a customer's record; None deletes the customer."""
    return None if customer.country is None else _text({"country": customer.country})


def encoder(form: str, schema_id: int) -> Callable[[Entry], bytes]:
    """Return a function that encodes an order: as json, or as avro with this schema id."""
    return _json if form == "json" else lambda entry: _avro(entry, schema_id)


def _fields(entry: Entry) -> dict[str, Any]:
    fields = asdict(entry.order)
    if entry.kind is Kind.WORTHLESS:
        fields["cents"] *= -1
    if entry.kind is Kind.FROM_THE_FUTURE:
        fields["at_ms"] += 10 * _DAY_MS
    return fields


def _json(entry: Entry) -> bytes:
    fields = _fields(entry)
    if entry.kind is Kind.INCOMPLETE:
        del fields["customer"]
    if entry.kind is Kind.WRONG_TYPE:
        fields["cents"] = "much"
    value = _text(fields)
    return value[:-5] if entry.kind is Kind.CUT_OFF else value


def _avro(entry: Entry, schema_id: int) -> bytes:
    if entry.kind is Kind.WRONG_TYPE:
        return _json(entry)  # JSON, so the wrong format
    number = _UNKNOWN_SCHEMA if entry.kind is Kind.INCOMPLETE else schema_id
    value = b"\0" + number.to_bytes(4, "big") + _avro_body(_fields(entry))
    return value[:-5] if entry.kind is Kind.CUT_OFF else value


def _avro_body(fields: dict[str, Any]) -> bytes:
    import fastavro  # noqa: PLC0415 - only for Avro

    body = io.BytesIO()
    fastavro.schemaless_writer(body, _avro_schema(), fields)
    return body.getvalue()


@cache
def _avro_schema() -> Any:
    import fastavro  # noqa: PLC0415

    return fastavro.parse_schema(json.loads(AVRO_SCHEMA.read_text()))


def _text(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()
