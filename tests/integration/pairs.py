"""Two classic members of a group: a leader and a follower that have their assignments."""

from __future__ import annotations

from typing import Any

from tests.integration.joining import RawClassicMember, name_of
from tests.integration.raw_worlds import RawWorld

__all__ = ["Pair", "form_group", "receive_joins"]

_LONG_MS = 60_000


def form_group(leader: RawClassicMember) -> None:
    """Form a group of one member, in generation 1."""
    begun = leader.join()
    assert (begun.error_code, begun.generation_id, begun.leader) == (0, 1, leader.member_id)
    leader.send_sync(1, **{leader.member_id: b"all"})
    assert leader.receive_sync() == (None, b"all")


def receive_joins(*members: RawClassicMember) -> dict[str, int]:
    """Wait for the join responses; return the generations by member id."""
    responses = [each.receive_join() for each in members]
    assert {name_of(response.error_code) for response in responses} == {None}
    return {response.member_id: response.generation_id for response in responses}


class Pair:
    """A leader and a follower in generation 2.

    Attributes:
        leader: Its session timeout is a minute.
        follower: The test chooses its timeouts.
        generation: The generation of their last joins.
        since_s: A time shortly before the follower's last session began.
    """

    def __init__(self, raw: RawWorld, **follower: Any) -> None:
        self.raw = raw
        long = {"session_ms": _LONG_MS, "rebalance_ms": _LONG_MS}
        self.leader = raw.classic(**long)
        self.follower = raw.classic(**{**long, **follower})
        self.new_members = [raw.classic(**long) for _ in range(3)]
        self.generation = 1
        form_group(self.leader)
        self.join_new(self.follower)
        self.since_s = raw.now_s()
        self.leader.send_join()
        assert set(receive_joins(self.leader, self.follower).values()) == {2}
        self.generation = 2
        self.sync_leader(2)
        self.follower.send_sync(2)
        assert self.follower.receive_sync() == (None, b"two")

    def join_new(self, member: RawClassicMember) -> None:
        """Let a new member join with its assigned id, and wait for the rebalance."""
        member.send_join()
        assert name_of(member.receive_join().error_code) == "MemberIdRequiredError"
        member.send_join()
        self.leader.await_rebalance(self.generation)

    def sync_leader(self, generation: int) -> None:
        """Let the leader send the assignments."""
        assigned = {self.leader.member_id: b"one", self.follower.member_id: b"two"}
        self.leader.send_sync(generation, **assigned)
        assert self.leader.receive_sync() == (None, b"one")

    def beats(self, generation: int) -> tuple[str | None, str | None]:
        """Let both send a heartbeat; returns their errors."""
        return self.leader.beat(generation), self.follower.beat(generation)

    def rejoin(self) -> None:
        """Let both send JoinGroup; the leader starts a rebalance if there is none."""
        self.leader.send_join()
        self.follower.await_rebalance(self.generation)
        self.follower.send_join()

    def join_again(self, *new_members: RawClassicMember) -> dict[str, int]:
        """Let both and the new members join; returns their generations by member id."""
        self.rejoin()
        generations = receive_joins(self.leader, self.follower, *new_members)
        self.generation = max(generations.values())
        return generations

    def lead_alone(self) -> set[str]:
        """Let the leader join; returns the member ids of the next generation."""
        self.leader.send_join()
        response = self.leader.receive_join()
        assert not response.error_code, name_of(response.error_code)
        self.generation = response.generation_id
        return {each.member_id for each in response.members}
