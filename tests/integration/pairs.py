"""Two classic members of a group: a leader and a follower that have their assignments."""

from __future__ import annotations

from typing import Any

from tests.integration.joining import RawClassicMember, name_of
from tests.integration.raw_worlds import RawWorld

__all__ = ["Pair", "alone", "joined"]

_LONG_MS = 60_000


def alone(leader: RawClassicMember) -> None:
    """Be the group, in generation 1."""
    begun = leader.join()
    assert (begun.error_code, begun.generation_id, begun.leader) == (0, 1, leader.member_id)
    leader.ask_to_sync(1, **{leader.member_id: b"all"})
    assert leader.synced() == (None, b"all")


def joined(*members: RawClassicMember) -> dict[str, int]:
    """Return the generation that each is told of, by their ids, once their joins are answered."""
    answers = [each.joined() for each in members]
    assert {name_of(answer.error_code) for answer in answers} == {None}
    return {answer.member_id: answer.generation_id for answer in answers}


class Pair:
    """A leader and a follower in generation 2.

    Attributes:
        leader: Has a session of a minute.
        follower: Has what a test wants.
        generation: That of their last joins.
        since_s: When the follower's last session was about to begin.
    """

    def __init__(self, raw: RawWorld, **follower: Any) -> None:
        self.raw = raw
        long = {"session_ms": _LONG_MS, "rebalance_ms": _LONG_MS}
        self.leader = raw.classic(**long)
        self.follower = raw.classic(**{**long, **follower})
        self.newcomers = [raw.classic(**long) for _ in range(3)]
        self.generation = 1
        alone(self.leader)
        self.come(self.follower)
        self.since_s = raw.now_s()
        self.leader.ask_to_join()
        assert set(joined(self.leader, self.follower).values()) == {2}
        self.generation = 2
        self.sync_leader(2)
        self.follower.ask_to_sync(2)
        assert self.follower.synced() == (None, b"two")

    def come(self, member: RawClassicMember) -> None:
        """Have a new member ask to join, by the id that it is given, and wait for the round."""
        member.ask_to_join()
        assert name_of(member.joined().error_code) == "MemberIdRequiredError"
        member.ask_to_join()
        self.leader.await_round(self.generation)

    def sync_leader(self, generation: int) -> None:
        """Have the leader bring what each is to have."""
        assigned = {self.leader.member_id: b"one", self.follower.member_id: b"two"}
        self.leader.ask_to_sync(generation, **assigned)
        assert self.leader.synced() == (None, b"one")

    def beats(self, generation: int) -> tuple[str | None, str | None]:
        """Have both send a heartbeat; returns their errors."""
        return self.leader.beat(generation), self.follower.beat(generation)

    def ask_again(self) -> None:
        """Have both ask to join; the leader begins a round if none is on."""
        self.leader.ask_to_join()
        self.follower.await_round(self.generation)
        self.follower.ask_to_join()

    def join_again(self, *newcomers: RawClassicMember) -> dict[str, int]:
        """Have both join; returns the generation that they and others are told of, by ids."""
        self.ask_again()
        told = joined(self.leader, self.follower, *newcomers)
        self.generation = max(told.values())
        return told

    def lead_alone(self) -> set[str]:
        """Have the leader join, and return who is in the next generation with it."""
        self.leader.ask_to_join()
        answer = self.leader.joined()
        assert not answer.error_code, name_of(answer.error_code)
        self.generation = answer.generation_id
        return {each.member_id for each in answer.members}
