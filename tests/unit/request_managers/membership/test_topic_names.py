"""Names of topics for which a KIP-848 coordinator only sends ids."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka.errors import UnknownTopicOrPartitionError

from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tests.unit.request_managers.membership.kip848_member import (
    HELD,
    ConsumerMember,
    beat_response,
)
from tests.unit.request_managers.world import TP, TP2


def forget_the_topic(member: ConsumerMember) -> None:
    """A stale broker responds that there is no such topic."""
    metadata = member.world.metadata
    errors = {"orders": UnknownTopicOrPartitionError}
    response = replace(metadata.snapshot, topics={}, topic_errors=errors)
    metadata.update(response, partial=True)
    assert not metadata.snapshot.topic_names


@pytest.mark.behaviour(81)
def test_owned_partitions_keep_their_name_while_metadata_lack_it() -> None:
    member = ConsumerMember()
    member.settle((0, 1))
    forget_the_topic(member)
    member.beat(beat_response(2, (0, 1, 2)))
    acknowledgement = member.send()
    assert member.take_event() is None, "what is owned stays, and another partition waits"
    assert not member.world.managers.metadata._unresolved_ids
    member.respond(acknowledgement, beat_response(2))
    member.world.lead(1, 1, 2)
    member.iterate()
    assert member.apply_assignment() == PartitionsAssigned(HELD | {TP2}, frozenset({TP2}))
    forget_the_topic(member)
    member.respond(member.send(), beat_response(2))
    member.beat(beat_response(3, (0,)))
    member.iterate()
    assert member.take_event() == PartitionsRevoked(frozenset({TP2, *HELD} - {TP}))


@pytest.mark.behaviour(81)
def test_the_name_is_dropped_with_the_assignment() -> None:
    member = ConsumerMember()
    member.settle((0, 1))
    member.beat(beat_response(2, {}))
    member.iterate()
    assert member.take_event() == PartitionsRevoked(HELD)
    member.done()
    member.apply_assignment()
    member.respond(member.send(), beat_response(2))
    forget_the_topic(member)
    member.beat(beat_response(3, (0,)))
    member.send()
    assert member.take_event() is None, "a topic without a name waits for metadata"
    assert member.world.managers.metadata._unresolved_ids
