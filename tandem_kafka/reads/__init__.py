"""Bounded reads: a range of topics as Arrow record batches, and as a LazyFrame of polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandem_kafka.reads.progress import Progress
from tandem_kafka.reads.record_batches import read

if TYPE_CHECKING:
    from tandem_kafka.reads.lazy_frame import scan

__all__ = ["Progress", "read", "scan"]


def __getattr__(name: str) -> Any:
    if name == "scan":  # it imports polars
        from tandem_kafka.reads.lazy_frame import scan

        return scan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
