"""The options of a consumer: each defined once, checked together, kept in a frozen `Config`.

`options.py` defines them, `rules.py` has the rules between them, and `config.py` completes them.
The other modules check single values, or read names and texts of other clients.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from tandem_kafka.config.config import Config, default_config
from tandem_kafka.config.offset_reset import OffsetReset
from tandem_kafka.config.parsers import Deserializer
from tandem_kafka.config.table import option_table
from tandem_kafka.config.typed import ByDuration, ConsumerOptions, PlainOptions

__all__ = [
    "ByDuration",
    "Config",
    "ConsumerOptions",
    "Deserializer",
    "OffsetReset",
    "PlainOptions",
    "default_config",
    "option_table",
]
