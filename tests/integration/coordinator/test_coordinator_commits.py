"""Which clients can commit and fetch the offsets of a group, with both coordinators."""

from __future__ import annotations

import pytest

from tests.integration.heartbeating import Owned
from tests.integration.pairs import Pair
from tests.integration.raw_worlds import RawWorld
from tests.integration.subscriptions import subscription_metadata

UNKNOWN, STALE = "UnknownMemberIdError", "StaleMemberEpochError"
ILLEGAL, FENCED = "IllegalGenerationError", "FencedInstanceIdError"


def test_any_client_commits_for_a_group_without_members(raw: RawWorld) -> None:
    offsets = raw.offsets()
    assert offsets.commit("x", 3, p0=1) == "GroupIdNotFoundError"
    assert offsets.commit("", -1, p0=1) is None
    assert offsets.commit("x", -1, p1=2) is None
    assert offsets.commit("x", 3, p0=9) == UNKNOWN, "there is a group by now"
    assert offsets.committed() == {0: 1, 1: 2}
    pair = Pair(raw)
    assert offsets.commit("", -1, p0=9) == UNKNOWN
    assert pair.leader.leave(pair.follower) == [None, None]
    assert offsets.commit("", -1, p0=3) is None
    assert offsets.commit(pair.leader.member_id, 2, p0=9) == UNKNOWN
    assert offsets.committed() == {0: 3, 1: 2}


def test_a_classic_member_commits_with_its_ids_and_generation(raw: RawWorld) -> None:
    pair, offsets, static = Pair(raw), raw.offsets(), raw.classic("two")
    static.send_join()
    pair.leader.await_rebalance(pair.generation)
    assert set(pair.join_again(static).values()) == {3}
    pair.sync_leader(3)
    leader = pair.leader.member_id
    for member_id, generation, instance, error in (
        (leader, 2, None, ILLEGAL),
        (leader, -1, None, ILLEGAL),
        ("", 3, None, UNKNOWN),
        (leader, 3, "nobody", UNKNOWN),
        (leader, 3, "two", FENCED),
        (leader, 3, None, None),
        (static.member_id, 3, "two", None),
        (static.member_id, 3, None, None),
    ):
        response = offsets.commit(member_id, generation, instance, p0=1)
        assert response == error, (member_id, generation, instance)
    for member_id, generation in ((leader, 3), (leader, 9), ("x", 9)):
        assert offsets.fetch(member_id, generation) == (None, {0: 1}), (
            "any client can fetch offsets"
        )


@pytest.mark.design("001", "OffsetCommit, OffsetFetch and TxnOffsetCommit of members")
def test_a_kip_848_member_commits_and_fetches_offsets_at_its_epoch(raw: RawWorld) -> None:
    offsets, member = raw.offsets(), raw.modern()
    assert offsets.fetch("x", 3) == (None, {}), "there is no group"
    epoch = member.join().epoch
    own_id = member.member_id
    assert offsets.commit(own_id, epoch, p0=1) is None
    for member_id, wrong, error in (
        (own_id, epoch + 1, STALE),
        (own_id, epoch - 1, STALE),
        (own_id, -1, STALE),
        ("x", epoch, UNKNOWN),
        ("", -1, UNKNOWN),
    ):
        assert offsets.commit(member_id, wrong, p0=9) == error
        assert offsets.fetch(member_id, wrong) == (error, {})
    assert offsets.fetch(own_id, epoch) == (None, {0: 1})
    assert offsets.committed() == {0: 1}, "a client without membership can fetch offsets"
    assert member.beat(-1).error is None
    assert offsets.commit(own_id, epoch, p0=9) == offsets.fetch(own_id, epoch)[0] == UNKNOWN
    assert offsets.commit("", -1, p0=2) is None


def numbers(owned: Owned | None) -> list[int]:
    assert owned is not None
    return sorted(number for each in owned.values() for number in each)


@pytest.mark.design("001", "OffsetCommit, OffsetFetch and TxnOffsetCommit of members")
def test_an_older_epoch_may_commit_partitions_owned_since_then(raw: RawWorld) -> None:
    """KIP-1251: a response in flight does not fence the commits before it."""
    offsets, first, second, third = raw.offsets(), raw.modern(), raw.modern(), raw.modern()
    own_id = first.member_id
    begun = first.join()
    assert begun.count == 4
    assert second.join().error is None
    response = first.beat_until(begun.epoch, lambda a: a.assigned is not None, begun.assigned)
    kept = numbers(response.assigned)
    gone = [number for number in range(4) if number not in kept]
    for number in (kept[0], gone[0]):
        assert offsets.commit(own_id, begun.epoch, **{f"p{number}": 1}) is None, "not revoked yet"
    moved = first.beat_until(begun.epoch, lambda a: a.epoch > begun.epoch, response.assigned)
    one, other = f"p{kept[0]}", f"p{gone[0]}"
    for epoch, offset, error in (
        (begun.epoch, {one: 2}, None),
        (begun.epoch, {other: 2}, STALE),
        (begun.epoch, {one: 9, other: 9}, STALE),
        (begun.epoch - 1, {one: 9}, STALE),
        (moved.epoch + 1, {one: 9}, STALE),
        (moved.epoch, {one: 3}, None),
        (moved.epoch, {other: 3}, None),  # the owner of a partition is not checked
    ):
        assert offsets.commit(own_id, epoch, **offset) == error, (epoch, offset)
    assert offsets.fetch(own_id, begun.epoch)[0] == STALE, "asking is no committing"
    got = second.beat_until(begun.epoch, lambda a: a.count)
    assert offsets.commit(second.member_id, begun.epoch, **{other: 9}) == STALE
    assert offsets.commit(second.member_id, got.epoch, **{other: 4}) is None
    assert offsets.committed() == {kept[0]: 3, gone[0]: 4}
    assert third.join().error is None
    response = first.beat_until(
        moved.epoch, lambda a: a.assigned is not None or a.epoch > moved.epoch
    )
    if (
        response.epoch == moved.epoch
    ):  # it must revoke one partition, and commits it at its oldest epoch
        (left,) = set(kept) - set(numbers(response.assigned))
        assert offsets.commit(own_id, begun.epoch, **{f"p{left}": 5}) is None


@pytest.mark.design("001", "OffsetCommit, OffsetFetch and TxnOffsetCommit of members")
def test_a_partition_assigned_again_is_owned_from_the_new_epoch(raw: RawWorld) -> None:
    offsets, first, second = raw.offsets(), raw.modern(), raw.modern()
    begun = first.join()
    assert second.join().error is None
    response = first.beat_until(begun.epoch, lambda a: a.assigned is not None, begun.assigned)
    moved = first.beat_until(begun.epoch, lambda a: a.epoch > begun.epoch, response.assigned)
    gone = next(number for number in range(4) if number not in numbers(response.assigned))
    assert second.beat(-1).error is None
    more = first.beat_until(moved.epoch, lambda a: a.epoch > moved.epoch, response.assigned)
    assert more.count == 4
    for epoch, error in ((begun.epoch, STALE), (moved.epoch, STALE), (more.epoch, None)):
        assert offsets.commit(first.member_id, epoch, **{f"p{gone}": 1}) == error
    kept = numbers(response.assigned)[0]
    for epoch in (begun.epoch, moved.epoch, more.epoch):
        assert offsets.commit(first.member_id, epoch, **{f"p{kept}": epoch}) is None
    assert first.join().error is None
    assert offsets.commit(first.member_id, begun.epoch, **{f"p{kept}": 1}) is None


@pytest.mark.design("001", "Static members")
def test_a_static_member_that_returns_keeps_its_partitions(raw: RawWorld) -> None:
    offsets, first, back = raw.offsets(), raw.modern("one"), raw.modern("one")
    begun = first.join()
    assert first.beat(-2).error is None
    assert offsets.commit(first.member_id, begun.epoch, p0=9) == STALE, "it is away"
    again = back.join()
    assert (again.error, again.epoch, again.assigned) == (None, begun.epoch, begun.assigned)
    assert offsets.commit(first.member_id, begun.epoch, p0=9) == UNKNOWN
    for epoch in (again.epoch, again.epoch - 1):
        assert offsets.commit(back.member_id, epoch, p0=1) is None, (
            "no other member owned it before"
        )
    assert offsets.commit(back.member_id, again.epoch + 1, p0=9) == STALE


@pytest.mark.design("001", "OffsetCommit, OffsetFetch and TxnOffsetCommit of members")
def test_a_classic_member_of_a_kip_848_group_has_generations(raw: RawWorld) -> None:
    offsets, modern, classic = raw.offsets(), raw.modern(), raw.classic()
    assert modern.join().error is None
    classic.protocols = {"range": subscription_metadata([raw.topic])}
    generation = classic.join().generation_id
    own_id = classic.member_id
    assert offsets.commit(own_id, generation, p0=1) is None
    for wrong in (generation - 1, generation + 1):
        assert offsets.commit(own_id, wrong, p0=9) == offsets.fetch(own_id, wrong)[0] == ILLEGAL
    assert offsets.fetch(own_id, generation) == (None, {0: 1})


# --- transactions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_stable_offset_fetches_wait_for_a_pending_transaction(
    raw: RawWorld, *, committed: bool
) -> None:
    offsets, transaction = raw.offsets(), raw.transaction()
    assert offsets.commit("", -1, p0=1, p1=1) is None
    assert transaction.commit("", -1, p0=7) is None
    assert offsets.committed() == {0: 1, 1: 1}
    assert offsets.fetch(None, -1, stable=True) == (None, {1: 1})
    transaction.end(committed=committed)
    after = {0: 7 if committed else 1, 1: 1}
    raw.wait_until(lambda: offsets.fetch(None, -1, stable=True) == (None, after))
    assert offsets.committed() == after


def test_a_transaction_commits_for_a_classic_member_at_its_generation(raw: RawWorld) -> None:
    transaction = raw.transaction()
    assert transaction.commit("x", 3, p0=1) == ILLEGAL, "there is no group"
    pair, offsets = Pair(raw), raw.offsets()
    leader = pair.leader.member_id
    for member_id, generation, instance, error in (
        (leader, 1, None, ILLEGAL),
        (leader, 3, None, ILLEGAL),
        ("x", 2, None, UNKNOWN),
        ("x", -1, None, UNKNOWN),
        (leader, 2, "nobody", UNKNOWN),
        (leader, 2, None, None),
        ("", -1, None, None),
    ):
        assert transaction.commit(member_id, generation, instance, p0=1) == error
    assert set(pair.join_again().values()) == {3}
    assert offsets.commit(leader, 3, p1=1) == "RebalanceInProgressError"
    assert transaction.commit(leader, 3, p1=1) is None, "whatever state the group is in"
    transaction.end(committed=False)


@pytest.mark.design("001", "OffsetCommit, OffsetFetch and TxnOffsetCommit of members")
def test_a_transaction_commits_for_a_kip_848_member_at_its_epoch(raw: RawWorld) -> None:
    transaction, member = raw.transaction(), raw.modern()
    epoch = member.join().epoch
    for member_id, generation, error in (
        (member.member_id, epoch + 1, ILLEGAL),
        (member.member_id, epoch - 1, ILLEGAL),
        ("x", epoch, UNKNOWN),
        ("x", -1, UNKNOWN),
        ("", -1, None),
        (member.member_id, epoch, None),
    ):
        assert transaction.commit(member_id, generation, p0=1) == error, (member_id, generation)
    transaction.end(committed=True)
    offsets = raw.offsets()
    raw.wait_until(lambda: offsets.committed() == {0: 1})
