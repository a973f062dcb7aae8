"""The same scripts with a real coordinator and the simulated one: the model does as Kafka does."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnreleasedInstanceIdError,
)
from tests.integration.group_members import PROTOCOLS, check_pairs, options_of, rebalance_calls
from tests.integration.groups.group_scenes import World
from tests.integration.heartbeating import RawMember
from tests.integration.polling import Listener

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS)


def fill(world: World, partitions: list[TopicPartition], count: int = 10) -> None:
    for tp in partitions:
        world.brokers.produce(tp, [b"%d" % number for number in range(count)])


def join(
    world: World, protocol: str, partitions: list[TopicPartition], **options: Any
) -> tuple[KafkaConsumer, Listener]:
    consumer, listener = world.consumer(**{**options_of(protocol), **options}), Listener()
    consumer.subscribe([partitions[0].topic], listener=listener)
    return consumer, listener


def set_of(world: World) -> set[tuple[int, int]]:
    return {(record.partition, record.offset) for record in world.read}


def everything_read(world: World, count: int) -> bool:
    return len(world.read) >= count


# --- shares --------------------------------------------------------------------------------------


@pytest.mark.every_version
@pytest.mark.behaviour(66, 69)
def test_a_second_member_gets_its_share_and_returns_it_when_it_leaves(
    world: World, protocol: str
) -> None:
    partitions = world.topic(4)
    fill(world, partitions)
    first, first_listener = join(world, protocol, partitions)
    world.poll_until(lambda: everything_read(world, 40), first)
    first.commit()
    second, second_listener = join(world, protocol, partitions)
    world.settle(partitions, first, second)
    assert {len(first.assignment()), len(second.assignment())} == {2}
    moved = second.assignment()
    fill(world, partitions)
    world.poll_until(lambda: everything_read(world, 80), first, second)
    first.commit()
    second.commit()
    second.close()
    world.settle(partitions, first)
    fill(world, partitions)
    world.poll_until(lambda: everything_read(world, 120), first)
    first.close()
    for listener in (first_listener, second_listener):
        check_pairs(listener)
        assert "lost" not in {what for what, _ in rebalance_calls(listener)}
    revoked = [tps for what, tps in rebalance_calls(first_listener) if what == "revoked"]
    assert revoked[0] == (set(partitions) if protocol == "eager" else moved)
    assert len(revoked) == 2 + (protocol == "eager"), "only what must move, moves"
    assert len(world.read) == 120, "committed records are not read again"


def test_range_assigns_the_same_partition_numbers_of_both_topics(
    world: World, protocol: str
) -> None:
    """The assigning side differs: the leader of a classic group, or the coordinator."""
    partitions = world.topic(3, "bills") + world.topic(3, "orders")
    options = {**options_of(protocol), "partition_assignment_strategy": [RangePartitionAssignor]}
    if protocol == "consumer":
        options = {**options_of(protocol), "group_remote_assignor": "range"}
    members = [world.consumer(**options) for _ in range(2)]
    for each in members:
        each.subscribe(sorted({tp.topic for tp in partitions}))
    world.settle(partitions, *members)
    members.sort(key=lambda each: str(each.group_metadata().member_id))
    shares = [sorted((tp.topic[-6:], tp.partition) for tp in each.assignment()) for each in members]
    assert shares == [
        [("-bills", 0), ("-bills", 1), ("orders", 0), ("orders", 1)],
        [("-bills", 2), ("orders", 2)],
    ]


def test_a_new_member_starts_at_the_committed_offset(world: World, protocol: str) -> None:
    partitions = world.topic(1)
    fill(world, partitions)
    first, _ = join(world, protocol, partitions)
    world.poll_until(lambda: everything_read(world, 10), first)
    first.commit({partitions[0]: OffsetAndMetadata(4, "so far", None)})
    first.close()
    world.read.clear()
    second, _ = join(world, protocol, partitions)
    world.poll_until(lambda: everything_read(world, 6), second)
    assert [record.offset for record in world.read] == [4, 5, 6, 7, 8, 9]
    kept = second.committed(partitions[0], metadata=True)
    assert (kept.offset, kept.metadata) == (4, "so far")


@pytest.mark.behaviour(57)
@pytest.mark.design("000", "Co-ordinator 6", "Partition changes 1-4")
def test_added_partitions_are_assigned(world: World, protocol: str) -> None:
    partitions = world.topic(2)
    members = [join(world, protocol, partitions, metadata_max_age_ms=300)[0] for _ in range(2)]
    world.settle(partitions, *members)
    world.brokers.add_partitions(partitions[0].topic, 4)
    grown = [TopicPartition(partitions[0].topic, number) for number in range(4)]
    world.settle(grown, *members)
    fill(world, grown)
    world.poll_until(lambda: everything_read(world, 40), *members)
    assert len(world.read) == len(set_of(world)) == 40


def test_an_empty_group_accepts_the_other_protocol(world: World, protocol: str) -> None:
    (tp,) = world.topic(1)
    fill(world, [tp])
    before, _ = join(world, protocol, [tp])
    world.poll_until(lambda: everything_read(world, 10), before)
    before.commit()
    before.close()
    fill(world, [tp])
    after, _ = join(world, "eager" if protocol == "consumer" else "consumer", [tp])
    world.poll_until(lambda: everything_read(world, 20), after)
    assert [record.offset for record in world.read] == list(range(20))


@pytest.mark.full("takes long on a real broker")
@pytest.mark.design("all", "Change of the group protocol")
def test_members_change_the_protocol_in_a_rolling_restart_and_back(
    world: World, protocol: str
) -> None:
    partitions = world.topic(4)
    fill(world, partitions)
    members = [join(world, protocol, partitions)[0] for _ in range(2)]
    world.settle(partitions, *members)
    for other in ("cooperative" if protocol == "consumer" else "consumer", protocol):
        for number in range(2):
            members.append(join(world, other, partitions)[0])
            world.settle(partitions, *members)
            members.pop(0).close()
            fill(world, partitions, 1 + number)
            world.settle(partitions, *members)
    world.poll_until(
        lambda: set_of(world) == {(n, o) for n in range(4) for o in range(16)}, *members
    )


def test_a_kip_848_heartbeat_to_a_classic_group_is_rejected(world: World, protocol: str) -> None:
    partitions = world.topic(2)
    other, _ = join(world, "cooperative" if protocol == "consumer" else protocol, partitions)
    world.settle(partitions, other)
    raw = RawMember(world.brokers.connect(), world.name, partitions[0].topic)
    raw.member_id = "somebody"
    assert raw.beat(3).error == "GroupIdNotFoundError"
    assert raw.beat(-1).error == "GroupIdNotFoundError"


# --- members that left or were removed -----------------------------------------------------------


@pytest.mark.behaviour(60, 84)
def test_an_expelled_member_loses_all_partitions_and_rejoins(world: World, protocol: str) -> None:
    partitions = world.topic(2)
    consumer, listener = join(world, protocol, partitions)
    world.settle(partitions, consumer)
    before = consumer.group_metadata()
    world.expel(consumer, protocol)
    world.poll_until(lambda: len(rebalance_calls(listener)) == 3, consumer)
    assert rebalance_calls(listener) == [
        ("assigned", set(partitions)),
        ("lost", set(partitions)),
        ("assigned", set(partitions)),
    ]
    after = consumer.group_metadata()
    # A KIP-848 member chooses its member id, the coordinator assigns that of a classic one.
    assert (after.member_id == before.member_id) == (protocol == "consumer")


@pytest.mark.behaviour(104)
@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_an_expelled_member_that_leaves_has_lost_all_partitions(
    world: World, protocol: str, end: str
) -> None:
    partitions = world.topic(2)
    consumer, listener = join(world, protocol, partitions)
    world.settle(partitions, consumer)
    world.expel(consumer, protocol)
    world.wait_until(lambda: consumer.group_metadata().state == "<unjoined>")
    getattr(consumer, end)()
    assert rebalance_calls(listener) == [("assigned", set(partitions)), ("lost", set(partitions))]


@pytest.mark.behaviour(125)
@pytest.mark.design("000", "Offset commits during rebalance 3")
def test_the_commit_of_an_expelled_member_fails(world: World, protocol: str) -> None:
    partitions = world.topic(1)
    fill(world, partitions)
    consumer, listener = join(world, protocol, partitions)
    world.poll_until(lambda: everything_read(world, 10), consumer)
    world.expel(consumer, protocol)
    with pytest.raises(CommitFailedError):
        consumer.commit()
    world.poll_until(lambda: len(rebalance_calls(listener)) == 3, consumer)
    world.poll_until(lambda: everything_read(world, 20), consumer)
    consumer.commit()
    assert consumer.committed(partitions[0]) == 10


@pytest.mark.behaviour(86)
def test_a_member_that_does_not_poll_is_replaced_and_rejoins(world: World, protocol: str) -> None:
    partitions = world.topic(2)
    stalled, listener = join(world, protocol, partitions, max_poll_interval_ms=1_500)
    world.settle(partitions, stalled)
    other, _ = join(world, protocol, partitions)
    world.settle(partitions, other)
    assert stalled.assignment(), "nothing changes outside of poll()"
    world.settle(partitions, stalled, other)
    assert [what for what, _ in rebalance_calls(listener)] == ["assigned", "lost", "assigned"]


@pytest.mark.behaviour(96)
def test_a_static_member_restarts_without_a_rebalance(world: World, protocol: str) -> None:
    partitions = world.topic(2)
    first, first_listener = join(world, protocol, partitions, group_instance_id="first")
    second, _ = join(world, protocol, partitions, group_instance_id="second")
    world.settle(partitions, first, second)
    mine, before = second.assignment(), rebalance_calls(first_listener)
    second.close()
    again, _ = join(world, protocol, partitions, group_instance_id="second")
    world.poll_until(again.assignment, first, again)
    assert again.assignment() == mine
    assert rebalance_calls(first_listener) == before
    again.close(leave_group="leave")
    world.settle(partitions, first)


@pytest.mark.behaviour(93, 94)
def test_two_members_cannot_share_an_instance_id(world: World, protocol: str) -> None:
    partitions = world.topic(2)
    first, _ = join(world, protocol, partitions, group_instance_id="one")
    world.settle(partitions, first)
    second, _ = join(world, protocol, partitions, group_instance_id="one")
    if protocol == "consumer":
        error, (rejected, other) = UnreleasedInstanceIdError, (second, first)
    else:
        error, (rejected, other) = FencedInstanceIdError, (first, second)
    with pytest.raises(error):
        world.poll_until(lambda: False, second, first)
    for _ in range(2):
        with pytest.raises(error):
            rejected.poll(1_000)
    world.settle(partitions, other)


# --- positions -----------------------------------------------------------------------------------


def test_without_a_commit_and_a_policy_there_is_no_position(world: World, protocol: str) -> None:
    partitions = world.topic(1)
    consumer, _ = join(world, protocol, partitions, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        world.poll_until(lambda: False, consumer)


def test_an_offset_out_of_range_is_an_error_or_reset(world: World, protocol: str) -> None:
    (tp,) = world.topic(1)
    fill(world, [tp])
    strict, _ = join(world, protocol, [tp], auto_offset_reset="none", group_id=f"{world.name}-2")
    strict.commit({tp: OffsetAndMetadata(99, "", None)})
    with pytest.raises(OffsetOutOfRangeError):
        world.poll_until(lambda: False, strict)
    lenient, _ = join(world, protocol, [tp])
    world.settle([tp], lenient)
    lenient.seek(tp, 99)
    world.read.clear()
    world.poll_until(lambda: everything_read(world, 10), lenient)
    assert world.read[0].offset == 0


@pytest.mark.behaviour(70)
def test_a_seek_and_a_pause_inside_on_partitions_assigned_precede_any_record(
    world: World, protocol: str
) -> None:
    first, second = partitions = world.topic(2)
    fill(world, partitions)
    consumer = world.consumer(**options_of(protocol))

    class Choose:
        def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
            if first in partitions:
                consumer.seek(first, 7)
                consumer.pause(second)

        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            pass

    consumer.subscribe([partitions[0].topic], listener=Choose())
    world.poll_until(lambda: everything_read(world, 3), consumer)
    world.poll(consumer, 500)
    assert [(record.partition, record.offset) for record in world.read] == [(0, 7), (0, 8), (0, 9)]


def test_ends_lag_and_offsets_of_the_log(world: World, protocol: str) -> None:
    (tp,) = world.topic(1)
    fill(world, [tp])
    consumer, _ = join(world, protocol, [tp])
    world.poll_until(lambda: everything_read(world, 10), consumer)
    assert consumer.beginning_offsets([tp]) == {tp: 0}
    assert consumer.end_offsets([tp]) == {tp: 10}
    assert consumer.current_lag(tp) == 0
    found = consumer.offsets_for_times({tp: 0})[tp]
    assert found is not None
    assert found.offset == 0
    assert consumer.offsets_for_times({tp: 2**53})[tp] is None
