"""Decoders of framed values; their errors name the schema id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.spark.decoding.framing import DecodingError, schema_id
from tandem_kafka.spark.decoding.registry import RegistryError


def framed(read: Callable[[int, bytes], Any], problem: str) -> Callable[[bytes], Any]:
    """Return a function that decodes a framed value.

    Args:
        read: Decodes a value, given the schema id and the whole value with its frame.
        problem: The error message for other exceptions of `read` than those of this package.
    """

    def decode(value: bytes) -> Any:
        number = schema_id(value)
        try:
            return read(number, value)
        except RegistryError:
            raise
        except DecodingError as error:
            raise DecodingError(f"schema id {number}: {error.args[0]}") from None
        except Exception as error:  # noqa: BLE001 - bad bytes can raise anything
            raise DecodingError(
                f"schema id {number}: these {len(value)} bytes {problem}: "
                f"{type(error).__name__}: {error}"
            ) from None

    return decode
