"""Decoders of framed values: errors that say which schema a value was written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.spark.decoding.framing import DecodingError, schema_id
from tandem_kafka.spark.decoding.registry import RegistryError

__all__ = ["framed"]


def framed(read: Callable[[int, bytes], Any], problem: str) -> Callable[[bytes], Any]:
    """Return what decodes a value.

    Args:
        read: Takes the schema's id and the value, its frame included.
        problem: What is said of bytes that lead `read` into any other error than those of this
            package.
    """

    def decode(value: bytes) -> Any:
        number = schema_id(value)
        try:
            return read(number, value)
        except RegistryError:
            raise
        except DecodingError as error:
            raise DecodingError(f"schema id {number}: {error.args[0]}") from None
        except Exception as error:  # noqa: BLE001 - whatever the bytes lead it into
            raise DecodingError(
                f"schema id {number}: these {len(value)} bytes {problem}: "
                f"{type(error).__name__}: {error}"
            ) from None

    return decode
