"""How far a partition has been fetched: the numbers that a standing fetch changes as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandem_kafka.runtime.native import native
from tandem_kafka.types import UNKNOWN_OFFSET

__all__ = ["FetchProgress", "PythonFetchProgress"]


class PythonFetchProgress:
    """Implements the native `FetchProgress` in Python.

    Attributes:
        high_watermark: Of the last response.
        last_stable_offset: Of the last response.
        log_start_offset: Of the last response.
        read_ahead: The offset of the next fetch.
        buffered_bytes: The bytes that were ever fetched.
    """

    __slots__ = (
        "buffered_bytes",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "read_ahead",
    )

    def __init__(self, *_arguments: Any) -> None:
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.read_ahead = UNKNOWN_OFFSET
        self.buffered_bytes = 0


if TYPE_CHECKING or native is None:  # noqa: SIM108 - a type checker sees a class
    FetchProgress = PythonFetchProgress
else:
    FetchProgress = native.FetchProgress
