"""A topic as a table: decoders to Arrow columns, bounded reads, and landings.

Decoders make Arrow columns of what keys and values contain, for `poll_arrow()`, reads and Spark.
`decoder.py` is what those written in Rust have in common. Any object with the methods of
`ArrowDecoder` can take their place.

`read()` and `scan()` read a range of topics once: `span.py` finds its offsets, `reader.py` reads
them, and `batches.py` makes record batches of one schema.

`Landing` writes records to a table with their offsets, in the same commit. It reads and decides
when to commit, through the four methods of a `Sink` (`sink.py`). `storage.py` has what each table
stores for each type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem_kafka.lazy_names import lazy_names

if TYPE_CHECKING:
    from tandem_kafka.tables.avro_records import Avro
    from tandem_kafka.tables.database import Database
    from tandem_kafka.tables.decoder import Text
    from tandem_kafka.tables.delta_lake import DeltaLake
    from tandem_kafka.tables.json_documents import Json
    from tandem_kafka.tables.landing import Landing
    from tandem_kafka.tables.lazy_frame import scan
    from tandem_kafka.tables.numbers import Double, Float, Integer, Long, Short
    from tandem_kafka.tables.parquet_directory import ParquetDirectory
    from tandem_kafka.tables.progress import Progress
    from tandem_kafka.tables.protobuf_messages import Protobuf
    from tandem_kafka.tables.record_batches import read
    from tandem_kafka.tables.registry import SchemaRegistry
    from tandem_kafka.tables.sink import Sink, TopicSink

__all__ = [
    "Avro",
    "Database",
    "DeltaLake",
    "Double",
    "Float",
    "Integer",
    "Json",
    "Landing",
    "Long",
    "ParquetDirectory",
    "Progress",
    "Protobuf",
    "SchemaRegistry",
    "Short",
    "Sink",
    "Text",
    "TopicSink",
    "read",
    "scan",
]

#: The command line reads ranges in processes without pyarrow, which most of these modules import.
_HOMES: Final = {
    **dict.fromkeys(("Double", "Float", "Integer", "Long", "Short"), "numbers"),
    "Avro": "avro_records",
    "Database": "database",
    "DeltaLake": "delta_lake",
    "Json": "json_documents",
    "Landing": "landing",
    "ParquetDirectory": "parquet_directory",
    "Progress": "progress",
    "Protobuf": "protobuf_messages",
    "SchemaRegistry": "registry",
    "Sink": "sink",
    "Text": "decoder",
    "TopicSink": "sink",
    "read": "record_batches",
    "scan": "lazy_frame",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES, deltalake="delta", pyarrow="arrow")
