"""What a member of a group is to be, whatever its client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["HEARTBEAT_MS", "Membership"]

HEARTBEAT_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Membership:
    """What to be a member of.

    Attributes:
        bootstrap: Addresses of the brokers.
        topic: The topic.
        group: The group.
        protocol: ``classic`` (with the range assignor), ``cooperative`` or ``consumer``.
        reset: ``earliest`` or ``latest``.

    """

    bootstrap: str
    topic: str
    group: str
    protocol: str
    reset: Literal["earliest", "latest"]
