"""Names of topics for which a KIP-848 coordinator only sends ids."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka.errors import UnknownTopicOrPartitionError

from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tests.unit.request_managers.membership.consumer_member import (
    HELD,
    ConsumerMember,
    beat_answer,
)
from tests.unit.request_managers.world import TP, TP2


def forget_the_topic(member: ConsumerMember) -> None:
    """A stale broker responds that there is no such topic."""
    metadata = member.world.metadata
    errors = {"orders": UnknownTopicOrPartitionError}
    answer = replace(metadata.snapshot, topics={}, topic_errors=errors)
    metadata.update(answer, partial=True)
    assert not metadata.snapshot.topic_names


@pytest.mark.behaviour(81)
def test_owned_partitions_keep_their_name_while_metadata_lack_it() -> None:
    member = ConsumerMember()
    member.settle((0, 1))
    forget_the_topic(member)
    member.beat(beat_answer(2, (0, 1, 2)))
    member.turn()
    assert member.takes_over() == PartitionsAssigned(HELD | {TP2}, frozenset({TP2}))
    assert not member.world.managers.metadata._unresolved_ids
    member.answer(member.send(), beat_answer(2))
    member.beat(beat_answer(3, (0,)))
    member.turn()
    assert member.asked() == PartitionsRevoked(frozenset({TP2, *HELD} - {TP}))


@pytest.mark.behaviour(81)
def test_the_name_is_dropped_with_the_assignment() -> None:
    member = ConsumerMember()
    member.settle((0, 1))
    member.beat(beat_answer(2, {}))
    member.turn()
    assert member.asked() == PartitionsRevoked(HELD)
    member.done()
    member.takes_over()
    member.answer(member.send(), beat_answer(2))
    forget_the_topic(member)
    member.beat(beat_answer(3, (0,)))
    member.send()
    assert member.asked() is None, "a topic without a name waits for metadata"
    assert member.world.managers.metadata._unresolved_ids
