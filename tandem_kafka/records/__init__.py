"""The record path: from the bytes of a fetch response to `ConsumerRecord` objects.

The implementation, Python (`python.py` and what it imports) or native (`native_reader.py`, rust/),
is chosen once at import; see `tandem_kafka.runtime.native`. `decoder.py` is their interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem_kafka.records.arrow import (
    Undecodable,
    check_arrow_columns,
    to_record_batch,
)
from tandem_kafka.records.columns import RecordColumns, Records
from tandem_kafka.records.decoder import (
    EncodedRecords,
    FetchedPartition,
    FetchedResponse,
    ReaderOptions,
    RecordReader,
    TakenRecords,
)
from tandem_kafka.runtime.native import native_available
from tandem_kafka.types import ARROW_COLUMNS

if TYPE_CHECKING or not native_available:
    from tandem_kafka.records.columns import derive_records
    from tandem_kafka.records.fetch_response import decode_fetch_response
    from tandem_kafka.records.python import join_records, open_reader, rewind
else:
    from tandem_kafka.records.native_reader import (
        decode_fetch_response,
        derive_records,
        join_records,
        open_reader,
        rewind,
    )

__all__ = [
    "ARROW_COLUMNS",
    "IMPLEMENTATION",
    "EncodedRecords",
    "FetchedPartition",
    "FetchedResponse",
    "ReaderOptions",
    "RecordColumns",
    "RecordReader",
    "Records",
    "TakenRecords",
    "Undecodable",
    "check_arrow_columns",
    "decode_fetch_response",
    "derive_records",
    "join_records",
    "open_reader",
    "rewind",
    "to_record_batch",
]

#: The implementation in use.
IMPLEMENTATION: Final = "native" if native_available else "python"
