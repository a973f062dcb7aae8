"""The options of a consumer: each defined once, checked together, kept in a frozen `Config`.

`options.py` defines them, `rules.py` has the rules between them, and `config.py` completes them.
The other modules check single values, or read names and texts of other clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem_kafka.lazy_names import lazy_names

if TYPE_CHECKING:
    from tandem_kafka.config.config import Config, default_config, sealed
    from tandem_kafka.config.offset_reset import OffsetReset
    from tandem_kafka.config.parsers import Deserializer
    from tandem_kafka.config.typed import ByDuration, ConsumerOptions, PlainOptions

__all__ = [
    "ByDuration",
    "Config",
    "ConsumerOptions",
    "Deserializer",
    "OffsetReset",
    "PlainOptions",
    "default_config",
    "sealed",
]

#: The modules of the names, which are imported on first use: processes that only plan a query use
#: `java.py` alone.
_HOMES: Final = {
    "ByDuration": "typed",
    "Config": "config",
    "ConsumerOptions": "typed",
    "Deserializer": "parsers",
    "OffsetReset": "offset_reset",
    "PlainOptions": "typed",
    "default_config": "config",
    "sealed": "config",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
