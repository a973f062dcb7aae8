"""Arrow types that correspond to Spark's types."""

from __future__ import annotations

import functools
from inspect import signature
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> Any:
    """Return the Arrow schema that Spark uses for a schema of its own; times are UTC."""
    return to_arrow_schema(schema, **_utc())


@functools.cache
def _utc() -> dict[str, Any]:
    """Return the argument for UTC. Looking at the signature takes longer than making a schema."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return {"timezone": "UTC"}
    return {"timestamp_utc": True}  # before Spark 4.2
