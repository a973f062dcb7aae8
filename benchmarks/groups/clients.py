"""Members of a group as the users of each client write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["PYTHON_CLIENTS", "GroupMember", "Membership"]

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
    reset: str


class GroupMember(Protocol):
    """One member; its constructor takes a `Membership`."""

    def subscribe(self) -> None:
        """Want to be a member."""
        ...

    def poll(self, timeout_s: float) -> Counter[int]:
        """Poll once; returns how many records there were of which partition."""
        ...

    def owned(self) -> list[int]:
        """The partitions that are ours."""
        ...

    def close(self) -> None:
        """Leave and close."""
        ...


def _tandem(membership: Membership) -> GroupMember:
    from benchmarks.groups.tandem import TandemMember

    return TandemMember(membership)


def _confluent(membership: Membership) -> GroupMember:
    from benchmarks.groups.confluent import ConfluentMember

    return ConfluentMember(membership)


#: By the names of the catalogue. A client is imported only in the process that measures it.
PYTHON_CLIENTS: dict[str, Callable[[Membership], GroupMember]] = {
    "tandem": _tandem,
    "confluent": _confluent,
}
