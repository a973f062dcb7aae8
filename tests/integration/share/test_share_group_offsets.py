"""Administration of share groups: the same raw requests to the simulated broker and a real one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tandem_kafka.wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from tests.integration.offsets import RawOffsets
from tests.integration.share.share_worlds import ShareWorld
from tests.integration.share.sharing import RawShareMember

ACCEPT, RELEASE, REJECT = 1, 2, 3
UNKNOWN_TOPIC_OR_PARTITION, INVALID_GROUP_ID, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 3, 24, 68, 69
NOT_HERE = "This server does not host this topic-partition."
#: Longer than the time between two targets of a group.
INTERVAL_S = 1.2
#: A start offset and a lag that the coordinator does not know.
NONE = (-1, -1)


class Described(NamedTuple):
    """A group, and the assigned partitions of each member, in order."""

    error: int
    message: str | None
    state: str = ""
    epochs: tuple[int, int] = (0, 0)
    assigned: tuple[tuple[int, ...], ...] = ()


class Administrator:
    """Sends requests about groups, and returns the results as plain values."""

    def __init__(self, world: ShareWorld) -> None:
        self._world = world
        self._connection = world.connect()

    def described(self, group: str) -> Described:
        request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        (found,) = self._connection.exchange(request, ShareGroupDescribeResponse, 1).groups
        if found.error_code:
            return Described(found.error_code, found.error_message)
        assert found.assignor_name == "simple"
        assert found.group_id == group
        assert all(each.subscribed_topic_names == [self._world.topic] for each in found.members)
        assigned = sorted(
            tuple(sorted(n for topic in each.assignment.topic_partitions for n in topic.partitions))
            for each in found.members
        )
        epochs = found.group_epoch, found.assignment_epoch
        return Described(0, None, found.group_state, epochs, tuple(assigned))

    def offsets(
        self, group: str, topics: Mapping[str, Sequence[int]] | None = None, version: int = 1
    ) -> dict[str, dict[int, tuple[int, int]]]:
        """Return start offset and lag of partitions; of all that the group has, without topics."""
        kind = DescribeShareGroupOffsetsRequest.RequestGroup
        wanted = None
        if topics is not None:
            wanted = [
                kind.RequestTopic(topic_name=name, partitions=list(each))
                for name, each in topics.items()
            ]
        request = DescribeShareGroupOffsetsRequest(groups=[kind(group_id=group, topics=wanted)])
        kind = DescribeShareGroupOffsetsResponse
        (found,) = self._connection.exchange(request, kind, version).groups
        assert not found.error_code
        assert not any(each.error_code for topic in found.topics for each in topic.partitions)
        return {
            topic.topic_name: {
                each.partition_index: (each.start_offset, each.lag) for each in topic.partitions
            }
            for topic in found.topics
        }

    def alter(self, group: str, topics: Mapping[str, Mapping[int, int]]) -> Any:
        """Set start offsets; returns the error, or error and message of each partition."""
        kind = AlterShareGroupOffsetsRequest.RequestTopic
        entry = kind.RequestPartition
        request = AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                kind(
                    topic_name=name,
                    partitions=[entry(partition_index=n, start_offset=at) for n, at in x.items()],
                )
                for name, x in topics.items()
            ],
        )
        found = self._connection.exchange(request, AlterShareGroupOffsetsResponse, 0)
        if found.error_code:
            return found.error_code
        return {
            (topic.topic_name, each.partition_index): (each.error_code, each.error_message)
            for topic in found.responses
            for each in topic.partitions
        }

    def delete(self, group: str, *topics: str) -> Any:
        """Delete offsets; returns the error, or error and message of each topic."""
        kind = DeleteShareGroupOffsetsRequest.RequestTopic
        request = DeleteShareGroupOffsetsRequest(
            group_id=group, topics=[kind(topic_name=name) for name in topics]
        )
        found = self._connection.exchange(request, DeleteShareGroupOffsetsResponse, 0)
        if found.error_code:
            return found.error_code
        return {each.topic_name: (each.error_code, each.error_message) for each in found.responses}


@pytest.fixture
def administrator(world: ShareWorld) -> Administrator:
    return Administrator(world)


def stored(member: RawShareMember, epoch: int, acknowledged: Any) -> None:
    """Acknowledge records of partition 0, and fetch none."""
    fetched = member.fetch(epoch, {0: acknowledged}, max_records=0, max_bytes=0)
    assert fetched.partitions[0].acknowledge_error == 0


def leave(world: ShareWorld, *members: RawShareMember) -> None:
    """Leave; the leaders forget the group with the connection of its last member."""
    for member in members:
        member.beat(-1)
        world.disconnect(member.connection)


def test_a_group_and_its_members_are_described(
    world: ShareWorld, administrator: Administrator
) -> None:
    missing = Described(GROUP_ID_NOT_FOUND, f"Group {world.group} not found.")
    assert administrator.described(world.group) == missing
    assert administrator.described("").error == INVALID_GROUP_ID
    first = world.joined()
    epochs = first.beat(0).epoch, first.beat(0).epoch
    described = Described(0, None, "Stable", epochs, ((0, 1),))
    assert administrator.described(world.group) == described
    second = world.joined()
    world.sleep(INTERVAL_S)
    epoch = first.beat(0).epoch
    second.beat(0)
    described = Described(0, None, "Stable", (epoch, epoch), ((0,), (1,)))
    assert administrator.described(world.group) == described
    leave(world, first, second)
    described = administrator.described(world.group)
    assert (described.state, described.epochs[0], described.assigned) == ("Empty", epoch + 2, ())


def test_another_kind_of_group(world: ShareWorld, administrator: Administrator) -> None:
    """Its start offsets are unknown, which is no error."""
    assert RawOffsets(world.connect(), world.group, world.topic).commit("", -1, p0=1) is None
    assert administrator.described(world.group) == Described(
        GROUP_ID_NOT_FOUND, f"Group {world.group} is not a share group."
    )
    assert administrator.offsets(world.group) == {}
    assert administrator.offsets(world.group, {world.topic: [0]}) == {world.topic: {0: NONE}}
    assert administrator.alter(world.group, {world.topic: {0: 1}}) == GROUP_ID_NOT_FOUND
    assert administrator.delete(world.group, world.topic) == GROUP_ID_NOT_FOUND


@pytest.mark.full("takes long on a real broker")
def test_the_lag_is_known_after_the_first_acknowledgement(
    world: ShareWorld, administrator: Administrator
) -> None:
    """It has the records in work. The start offset is one acknowledgement behind."""
    world.produce(5, 5)
    assert administrator.offsets(world.group) == {}
    member = world.joined()

    def partition_0(version: int = 1) -> tuple[int, int]:
        return administrator.offsets(world.group, version=version)[world.topic][0]

    assert administrator.offsets(world.group) == {world.topic: {0: NONE, 1: NONE}}
    member.fetch(0, [0], max_records=4, share_acquire_mode=1)
    assert partition_0() == NONE
    stored(member, 1, [(0, 1, [ACCEPT]), (3, 3, [ACCEPT])])
    assert partition_0() == (0, 7)
    assert partition_0(version=0) == (0, -1)
    stored(member, 2, [(2, 2, [RELEASE])])
    assert partition_0() == (2, 7)
    assert member.fetch(3, max_records=1, share_acquire_mode=1).partitions[0].acquired == (
        (2, 2, 2),
    )
    stored(member, 4, [(2, 2, [REJECT])])
    assert partition_0() == (2, 6)
    world.produce(1)
    assert partition_0() == (2, 7)
    asked = {world.topic: [0, 7], "unknown": [0]}
    assert administrator.offsets(world.group, asked) == {
        world.topic: {0: (2, 7), 7: NONE},
        "unknown": {0: NONE},
    }
    assert administrator.offsets(world.group, {}) == {}


def test_a_group_with_members_keeps_its_offsets(
    world: ShareWorld, administrator: Administrator
) -> None:
    world.joined()
    assert administrator.alter(world.group, {world.topic: {0: 1}}) == NON_EMPTY_GROUP
    assert administrator.delete(world.group, world.topic) == NON_EMPTY_GROUP


def test_a_group_begins_at_other_offsets(world: ShareWorld, administrator: Administrator) -> None:
    """The coordinator does not compare them with the log. What was done is forgotten."""
    world.produce(5, 5)
    member = world.joined()
    member.fetch(0, [0], max_records=4, share_acquire_mode=1)
    stored(member, 1, [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])])
    leave(world, member)
    changes = {world.topic: {0: 1, 1: 0, 9: 0}, "unknown": {0: 0}}
    assert administrator.alter(world.group, changes) == {
        (world.topic, 0): (0, None),
        (world.topic, 1): (0, None),
        (world.topic, 9): (UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE),
        ("unknown", 0): (UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE),
    }
    for start, seen in ((99, (99, -89)), (-1, NONE), (1, (1, 9))):
        administrator.alter(world.group, {world.topic: {0: start}})
        assert administrator.offsets(world.group)[world.topic] == {0: seen, 1: (0, 0)}
    assert administrator.alter(world.group, {}) == {}
    member = world.joined()
    fetched = member.fetch(0, [0], max_records=3, share_acquire_mode=1)
    while not fetched.partitions.get(0):  # it is being loaded
        fetched = member.fetch(1, max_records=3, share_acquire_mode=1)
    assert fetched.partitions[0].acquired == ((1, 3, 1),)


def test_a_group_that_does_not_exist_is_made(
    world: ShareWorld, administrator: Administrator
) -> None:
    """But not by a request without a partition that exists."""
    group = f"new-{uuid.uuid4().hex[:8]}"
    assert administrator.delete(group, world.topic) == GROUP_ID_NOT_FOUND
    assert administrator.alter(group, {"unknown": {0: 1}}) == {
        ("unknown", 0): (UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE)
    }
    assert administrator.described(group).error == GROUP_ID_NOT_FOUND
    assert administrator.alter(group, {world.topic: {0: 1}}) == {(world.topic, 0): (0, None)}
    assert administrator.described(group) == Described(0, None, "Empty", (1, 1))
    assert administrator.offsets(group) == {world.topic: {0: (1, -1)}}


def test_offsets_of_a_topic_are_deleted(world: ShareWorld, administrator: Administrator) -> None:
    """The next member begins by share.auto.offset.reset."""
    world.produce(5)
    member = world.joined()
    member.fetch(0, [0])
    stored(member, 1, [(0, 1, [ACCEPT])])
    leave(world, member)
    assert administrator.delete(world.group) == {}
    assert administrator.delete(world.group, world.topic, "unknown") == {
        world.topic: (0, None),
        "unknown": (UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE),
    }
    assert administrator.offsets(world.group) == {}
    assert administrator.described(world.group).state == "Empty"
    nothing = (UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
    assert administrator.delete(world.group, world.topic) == {world.topic: nothing}
    member = world.joined()
    fetched = member.fetch(0, [0])
    while not fetched.partitions.get(0):
        fetched = member.fetch(1)
    assert fetched.partitions[0].acquired == ((0, 4, 1),)
