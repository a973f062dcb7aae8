"""An assignment of partitions and topics that the metadata lack: they wait, and cost little."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tandem_kafka.events.background import PartitionsAssigned
from tandem_kafka.request_managers.membership.classic.states import State as ClassicState
from tandem_kafka.request_managers.membership.kip848.states import State
from tandem_kafka.request_managers.membership.kip848.target import Resolved, by_topic_id
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatResponse
from tests.unit.request_managers.membership.kip848_member import (
    HELD,
    ConsumerMember,
    beat_response,
    owned,
)
from tests.unit.request_managers.membership.member import (
    BOTH,
    Member,
    joined_response,
    synced_response,
)
from tests.unit.request_managers.test_metadata_refresh import described_topic, metadata_response
from tests.unit.request_managers.world import TOPIC_ID, TP2


def lacking(*partitions: int) -> ConsumerMember:
    """A member with a target of partitions, of which the metadata have 0 to 2."""
    member = ConsumerMember()
    member.polls()
    member.respond(member.send(), beat_response(1, partitions))
    member.iterate()
    assert {tp.partition for tp in member.apply_assignment().added} == {0, 1, 2}
    partial = member.send()
    assert owned(partial) == {TOPIC_ID: [0, 1, 2]}
    member.respond(partial, beat_response(1))
    member.iterate()
    return member


def test_partitions_that_the_metadata_lack_wait_for_them() -> None:
    member = lacking(0, 1, 2, 3, 10**6)
    refresher, world = member.world.managers.metadata, member.world
    pauses = []
    for _ in range(6):
        waited_ms, unsent = world.wait_and_send(refresher)
        world.respond(unsent, metadata_response(described_topic(leaders=(1, 1, 2))))
        pauses.append(waited_ms)
        member.iterate()
        assert member.take_event() is None
    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * max(1, pauses[1])
    world.lead(1, 1, 2, 1)
    member.iterate()
    new = TopicPartition("orders", 3)
    assert member.apply_assignment().added == {new}
    assert owned(member.send()) == {TOPIC_ID: [0, 1, 2, 3]}
    assert member.state is State.RECONCILING, "the rest still waits"
    world.lead(1, 1, 2)
    member.iterate()
    assert member.take_event() is None, "what is owned stays, whatever a broker forgets"


def test_no_partition_costs_memory_or_time_because_a_number_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracemalloc.start()
    try:
        member = lacking(*range(200_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The message has 4 bytes for each. A number takes 32, and its place in a set 40.
    assert kept < 200_000 * 4 * 25
    assert member.assigned == {TopicPartition("orders", number) for number in range(3)}
    resolutions: list[object] = []
    monkeypatch.setattr(Resolved, "of", resolutions.append)
    for _ in range(100):
        member.iterate()
    assert resolutions == [], "only when something has changed"


def test_many_topics_without_a_name_are_asked_for_in_parts() -> None:
    member, ids = ConsumerMember(), [UUID(int=1_000_000 + number) for number in range(2_500)]
    member.polls()
    target = {TOPIC_ID: (0, 1), **dict.fromkeys(ids, (0,))}
    member.respond(member.send(), beat_response(1, target))
    member.iterate()
    assert member.apply_assignment().added == HELD
    refresher, asked = member.world.managers.metadata, list[list[UUID]]()
    wait_ms = 0
    while len(asked) < 3:
        result = member.world.poll(refresher, after_ms=wait_ms)
        wait_ms = 0 if result.unsent else result.wait_ms
        for unsent in result.unsent:
            if unsent.message.topics[0].name is None:
                asked.append([topic.topic_id for topic in unsent.message.topics])
            member.world.respond(unsent, metadata_response(described_topic()))
    assert [len(each) for each in asked] == [1_000] * 3
    assert set().union(*asked) == set(ids)
    member.world.group.membership.prepare_to_leave()
    member.leaves()
    member.send()
    assert not refresher._unresolved_ids, "a member that leaves asks no longer"


def test_a_topic_in_very_many_entries_is_read_once() -> None:
    entry = ConsumerGroupHeartbeatResponse.Assignment.TopicPartitions
    entries = [entry(topic_id=TOPIC_ID, partitions=[number]) for number in range(2_000)]
    tracemalloc.start()
    try:
        assert by_topic_id(entries) == {TOPIC_ID: frozenset(range(2_000))}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * sys.getsizeof(set(range(2_000))) + 100_000


# --- classic groups ------------------------------------------------------------------------------


def synced(member: Member, *partitions: int) -> None:
    """Let a member that has joined get an assignment, and wait for its callback."""
    member.application_polls()
    member.respond(member.send(), joined_response())
    response: Any = synced_response()
    numbers = list(partitions)
    assigned = ConsumerProtocolAssignment(0, [("orders", numbers)], b"")
    response.assignment = bytes(assigned.encode())
    member.respond(member.send(), response)


def test_a_classic_member_takes_what_the_metadata_have_and_the_rest_later() -> None:
    member = Member()
    world = member.world
    synced(member, 0, 1, 3, 10**6)
    event = member.take_event()
    assert event == PartitionsAssigned(frozenset(BOTH), frozenset(BOTH))
    world.subscription.set_assigned(BOTH)
    member.callback_done()
    assert member.quiet(after_ms=10)
    assert member.take_event() is None
    refresher = world.managers.metadata
    assert {*refresher._short_topics} == {"orders"}
    world.lead(1, 1, 2, 1)
    assert member.quiet(after_ms=10)
    new = TopicPartition("orders", 3)
    assert member.take_event() == PartitionsAssigned(frozenset({*BOTH, new}), frozenset({new}))
    world.subscription.set_assigned([*BOTH, new])
    member.callback_done()
    world.lead(1, 1)
    assert member.quiet(after_ms=10)
    assert member.take_event() is None, "what is owned stays"
    member.leave()
    assert not refresher._short_topics


def test_a_whole_assignment_of_a_classic_member_asks_for_nothing() -> None:
    member = Member()
    member.join((*BOTH, TP2))
    assert not member.world.managers.metadata._short_topics
    assert member.state is ClassicState.STABLE


def test_no_partition_of_a_classic_member_costs_memory_because_a_number_comes() -> None:
    member = Member()
    tracemalloc.start()
    try:
        synced(member, *range(200_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 200_000 * 4 * 25
    event = member.take_event()
    assert isinstance(event, PartitionsAssigned)
    assert len(event.assignment) == 3
