"""One API: its request class, its versions and its handler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tandem_kafka_testing.cluster.call import Handler


@dataclass(frozen=True, slots=True)
class Api:
    """One API of the brokers.

    Attributes:
        request: kafka-python's request class.
        versions: The lowest and the highest offered version.
        handle: Its handler.
        name: Name of the request.
    """

    request: Any
    versions: tuple[int, int]
    handle: Handler
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.request.name)


def error_code(error: Any) -> int:
    """Return the code of an error class, 0 for None."""
    return 0 if error is None else int(error.errno)


def error_text(error: Exception) -> str | None:
    """Return the text of an error in addition to its code; None without one."""
    return str(error.args[0]) if error.args else None
