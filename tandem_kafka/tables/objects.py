"""Values of nested types as JSON has them."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from typing import Any

import pyarrow as pa


def as_object(value: Any, kind: pa.DataType) -> Any:
    """Return what `as_py()` returns, with maps as dicts, and floats that JSON lacks as strings.

    Args:
        value: A value as `as_py()` returns it: maps are lists of pairs.
        kind: Its type.
    """
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: as_object(each, kind.item_type) for key, each in value}
    if pa.types.is_struct(kind):
        return {each.name: as_object(value[each.name], each.type) for each in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [as_object(each, kind.value_type) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # "NaN", "Infinity" or "-Infinity"
    return value


def as_text(value: object) -> str:
    """Return the text of a value that JSON lacks; bytes are base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
