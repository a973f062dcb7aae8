"""The settings of a group member, independent of its client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["HEARTBEAT_MS", "Membership"]

HEARTBEAT_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Membership:
    """The settings of a member.

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
