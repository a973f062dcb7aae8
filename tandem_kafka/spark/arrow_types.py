"""Arrow types that correspond to Spark's types."""

from __future__ import annotations

from inspect import signature
from typing import Any, Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

#: Before Spark 4.2, there is no `timezone`. Spark makes a schema for each task, and the signature
#: takes longer than the schema.
_HAS_TIMEZONE: Final = "timezone" in signature(to_arrow_schema).parameters


def arrow_schema(schema: StructType) -> Any:
    """Return the Arrow schema that Spark uses for a schema of its own; times are UTC."""
    if _HAS_TIMEZONE:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema, timestamp_utc=True)
