"""This consumer with one option changed, to show the effect of the option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["VARIANTS", "Variant"]


@dataclass(frozen=True, slots=True)
class Variant:
    """The difference from the default.

    Attributes:
        title: The name in results.
        options: Options of the consumer.
        arrow: The arguments of `poll_arrow()`; None for `poll()`.
        switch_interval_s: How long a thread may keep the GIL while another one waits for it.

    """

    title: str
    options: Mapping[str, Any] = field(default_factory=dict)
    arrow: Mapping[str, Any] | None = None
    switch_interval_s: float | None = None


def _options(**options: Any) -> Variant:
    title = ", ".join(f"{name}={value}" for name, value in options.items())
    return Variant(title, options)


def _same(value: bytes) -> bytes:
    return value


VARIANTS: Final[Mapping[str, Variant]] = {
    "poll-50": _options(max_poll_records=50),
    "poll-5000": _options(max_poll_records=5_000),
    "partition-64k": _options(max_partition_fetch_bytes=64 * 1024),
    "partition-1m": _options(max_partition_fetch_bytes=1024 * 1024),
    "partition-8m": _options(max_partition_fetch_bytes=8 * 1024 * 1024),
    "partition-16m": _options(max_partition_fetch_bytes=16 * 1024 * 1024),
    "buffer-4m": _options(fetch_buffer_max_bytes=4 * 1024 * 1024),
    "min-bytes": _options(fetch_min_bytes=1_000_000, fetch_max_wait_ms=100),
    "no-crcs": _options(check_crcs=False),
    "no-metrics": _options(metrics_enabled=False),
    "deserializer": Variant(
        "a value_deserializer that does nothing", {"value_deserializer": _same}
    ),
    "switch": Variant("sys.setswitchinterval(0.0005)", switch_interval_s=0.0005),
    "arrow-all": Variant("poll_arrow()", arrow={}),
    "arrow-view": Variant("poll_arrow(binary_view=True)", arrow={"binary_view": True}),
    "arrow-value": Variant('poll_arrow(columns=["value"])', arrow={"columns": ["value"]}),
}
