"""One API: its request class, the versions spoken, and who answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tandem_kafka.testing.cluster.call import Handler

__all__ = ["Api", "error_code"]


@dataclass(frozen=True, slots=True)
class Api:
    """A row of the table.

    Attributes:
        request: kafka-python's request class.
        versions: The lowest and the highest that brokers offer.
    """

    request: Any
    versions: tuple[int, int]
    handle: Handler


def error_code(error: Any) -> int:
    """Return the number of an error class, 0 for None."""
    return 0 if error is None else int(error.errno)
