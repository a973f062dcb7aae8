"""The protocol of a classic group: all members support it, and most of them prefer it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["common_protocols", "elect_protocol"]


def common_protocols(offers: Sequence[Collection[str]]) -> set[str]:
    """Return the protocols that all members support."""
    return set(offers[0]).intersection(*offers[1:])


def elect_protocol(offers: Sequence[Collection[str]]) -> str:
    """Return the protocol with the most votes.

    Each member votes for its first common protocol. With equal votes, the first vote wins.
    """
    possible = common_protocols(offers)
    votes: dict[str, int] = {}
    for offer in offers:
        name = next(name for name in offer if name in possible)
        votes[name] = votes.get(name, 0) + 1
    return max(votes, key=lambda name: votes[name])
