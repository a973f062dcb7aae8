"""The assignors that members bring along: which of them a group can use, and who can compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Announced", "ClientAssignor", "HandedOver", "able", "announced_as", "common_assignor"]


@dataclass(frozen=True, slots=True)
class ClientAssignor:
    """What a member says of one assignor.

    Attributes:
        minimum_version: The oldest version of metadata that it reads.
        maximum_version: The newest.
        version: That of its own metadata.
        reason: Why the metadata is another than before; 0 for no reason.
    """

    name: str
    minimum_version: int = 0
    maximum_version: int = 0
    version: int = 0
    metadata: bytes = b""
    reason: int = 0


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What the assignor that computed hands to a member's own, along with its partitions."""

    assignor: str
    version: int = 0
    metadata: bytes = b""
    error: int = 0


#: A member's, in its order of preference.
Announced = tuple[ClientAssignor, ...]


def announced_as(announced: Announced, name: str) -> ClientAssignor | None:
    """Return what a member says of the assignor of this name."""
    return next((each for each in announced if each.name == name), None)


def able(announced: Mapping[str, Announced], name: str) -> list[str]:
    """Return who can compute with an assignor: those that read everybody's metadata.

    Nobody, if there is a member that does not have it.
    """
    having = {member: announced_as(each, name) for member, each in announced.items()}
    brought = [each for each in having.values() if each is not None]
    if len(brought) < len(having):
        return []
    versions = {each.version for each in brought}
    return [
        member
        for member, each in having.items()
        if each is not None
        and each.minimum_version <= min(versions)
        and max(versions) <= each.maximum_version
    ]


def common_assignor(announced: Mapping[str, Announced]) -> str | None:
    """Return the assignor that all members have and somebody can compute with, by their votes.

    Each votes for the first of its own that is possible; among equals the first by name.
    """
    votes: dict[str, int] = {}
    for each in announced.values():
        possible = (assignor.name for assignor in each if able(announced, assignor.name))
        favourite = next(possible, None)
        if favourite is not None:
            votes[favourite] = votes.get(favourite, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name), default=None)
