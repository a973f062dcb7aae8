"""The record path: from the bytes of a fetch response to `ConsumerRecord`s.

Which implementation does the work is decided here, once, at import. `TANDEM_KAFKA_IMPL` forces
one of them; a forced one that is not there is an error, not a quiet change to the other.
"""

from __future__ import annotations

import os
from typing import Final

from tandem_kafka.records.columns import RecordColumns, Records
from tandem_kafka.records.decoder import (
    FetchedPartition,
    FetchedResponse,
    ReaderOptions,
    RecordReader,
)
from tandem_kafka.records.fetch_response import decode_fetch_response
from tandem_kafka.records.python import open_reader

__all__ = [
    "IMPLEMENTATION",
    "FetchedPartition",
    "FetchedResponse",
    "ReaderOptions",
    "RecordColumns",
    "RecordReader",
    "Records",
    "decode_fetch_response",
    "open_reader",
]


def _choose(wanted: str | None) -> str:
    """Return the implementation to use, given what the environment asks for."""
    if wanted in {None, "", "python"}:
        return "python"
    if wanted == "native":
        raise ImportError(
            "TANDEM_KAFKA_IMPL=native, but this version has no native record decoder; "
            "unset it or set it to python"
        )
    raise ImportError(f"TANDEM_KAFKA_IMPL={wanted}: must be python or native")


#: The implementation at work.
IMPLEMENTATION: Final = _choose(os.environ.get("TANDEM_KAFKA_IMPL"))
