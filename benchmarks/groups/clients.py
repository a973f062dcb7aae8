"""Members of a group as the users of each client write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from benchmarks.groups.membership import Membership

__all__ = ["PYTHON_CLIENTS", "GroupMember"]


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
