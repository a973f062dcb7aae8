"""Members of a group, written as users of each client would write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from benchmarks.groups.membership import Membership

__all__ = ["PYTHON_CLIENTS", "GroupMember"]


class GroupMember(Protocol):
    """One member; its constructor takes a `Membership`."""

    def subscribe(self) -> None:
        """Subscribe to the topic."""
        ...

    def poll(self, timeout_s: float) -> Counter[int]:
        """Poll once; returns the number of records by partition."""
        ...

    def owned(self) -> list[int]:
        """Return the partitions of this member."""
        ...

    def close(self) -> None:
        """Leave the group and close the client."""
        ...


def _tandem(membership: Membership) -> GroupMember:
    from benchmarks.groups.tandem import TandemMember

    return TandemMember(membership)


def _confluent(membership: Membership) -> GroupMember:
    from benchmarks.groups.confluent import ConfluentMember

    return ConfluentMember(membership)


#: Members by the name in the catalogue. Only the process that measures a client imports it.
PYTHON_CLIENTS: dict[str, Callable[[Membership], GroupMember]] = {
    "tandem": _tandem,
    "confluent": _confluent,
}
