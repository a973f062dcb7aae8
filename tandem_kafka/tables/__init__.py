"""Landing: records of topics in a table, with their offsets in the same commit.

`landing.py` reads and decides when to commit, through the four methods of a `Sink` (`sink.py`).
`parquet_directory.py`, `delta_lake.py` and `database.py` are sinks. Only what is used is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tandem_kafka.tables.database import Database
    from tandem_kafka.tables.delta_lake import DeltaLake
    from tandem_kafka.tables.landing import Landing
    from tandem_kafka.tables.parquet_directory import ParquetDirectory
    from tandem_kafka.tables.sink import Sink, TopicSink

__all__ = ["Database", "DeltaLake", "Landing", "ParquetDirectory", "Sink", "TopicSink"]

_MODULES: Final = {
    "Database": "database",
    "DeltaLake": "delta_lake",
    "Landing": "landing",
    "ParquetDirectory": "parquet_directory",
    "Sink": "sink",
    "TopicSink": "sink",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
