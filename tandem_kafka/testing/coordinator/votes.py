"""Which protocol a classic group takes: one that all members have, and most of them prefer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["common", "voted"]


def common(offers: Sequence[Collection[str]]) -> set[str]:
    """Return what is in every member's offer."""
    return set(offers[0]).intersection(*offers[1:])


def voted(offers: Sequence[Collection[str]]) -> str:
    """Return the protocol with most votes.

    Each member has one vote, for the first of its offer that all have; among equals that counts
    which had the first one.
    """
    possible = common(offers)
    votes: dict[str, int] = {}
    for offer in offers:
        name = next(name for name in offer if name in possible)
        votes[name] = votes.get(name, 0) + 1
    return max(votes, key=lambda name: votes[name])
