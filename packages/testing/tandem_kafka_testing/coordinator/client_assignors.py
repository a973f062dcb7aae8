"""Client-side assignors: the common one of a group, and the members that can compute with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientAssignor:
    """A member's announcement of one assignor.

    Attributes:
        minimum_version: The oldest supported version of metadata.
        maximum_version: The newest supported version.
        version: The version of its own metadata.
        reason: Why the metadata has changed; 0 for no reason.
    """

    name: str
    minimum_version: int = 0
    maximum_version: int = 0
    version: int = 0
    metadata: bytes = b""
    reason: int = 0


@dataclass(frozen=True, slots=True)
class AssignorMetadata:
    """What the computing assignor sends to the assignor of a member, with its partitions."""

    assignor: str
    version: int = 0
    metadata: bytes = b""
    error: int = 0


#: The assignors of a member, in its order of preference.
Announced = tuple[ClientAssignor, ...]


def find_assignor(announced: Announced, name: str) -> ClientAssignor | None:
    """Return the announcement of the assignor with this name."""
    return next((each for each in announced if each.name == name), None)


def capable_members(announced: Mapping[str, Announced], name: str) -> list[str]:
    """Return the members that can compute with an assignor: they support all versions.

    If a member does not have the assignor, no member can.
    """
    having = {member: find_assignor(each, name) for member, each in announced.items()}
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
    """Return the assignor with the most votes among those with which a member can compute.

    Each member votes for its first possible one. With equal votes, the first by name wins.
    """
    votes: dict[str, int] = {}
    for each in announced.values():
        possible = (assignor.name for assignor in each if capable_members(announced, assignor.name))
        favourite = next(possible, None)
        if favourite is not None:
            votes[favourite] = votes.get(favourite, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name), default=None)
