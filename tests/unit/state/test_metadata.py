"""Merging metadata responses."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.state.metadata import ClusterMetadata
from tandem_kafka.types import (
    NO_TOPIC_ID,
    ClusterSnapshot,
    Node,
    PartitionInfo,
    TopicInfo,
    TopicPartition,
)

NODES = {n: Node(n, f"10.0.0.{n}", 9092) for n in (1, 2)}
TP = TopicPartition("a", 0)


def snapshot_of(
    name: str = "a", leader: int = 1, epoch: int = 3, topic_id: UUID = NO_TOPIC_ID
) -> ClusterSnapshot:
    topic = TopicInfo(name, topic_id, partitions={0: PartitionInfo(0, leader, epoch)})
    return ClusterSnapshot(nodes=NODES, topics={name: topic})


def known(*snapshots: ClusterSnapshot, partial: bool = True) -> ClusterMetadata:
    metadata = ClusterMetadata([("10.0.0.9", 9092)])
    for response in snapshots:
        metadata.update(response, partial=partial)
    return metadata


def test_before_the_first_response_there_are_only_bootstrap_servers() -> None:
    assert known().nodes() == (Node(-1, "10.0.0.9", 9092),)
    assert known().snapshot.leader(TP) is None
    assert known().snapshot.leader_epoch(TP) == -1
    assert known().snapshot.topic_id("a") == NO_TOPIC_ID


def test_a_newer_epoch_is_accepted_and_an_older_one_is_not() -> None:
    assert (
        known(snapshot_of(epoch=3), snapshot_of(leader=2, epoch=4)).snapshot.leader(TP) == NODES[2]
    )
    assert (
        known(snapshot_of(epoch=3), snapshot_of(leader=2, epoch=2)).snapshot.leader(TP) == NODES[1]
    )
    assert (
        known(snapshot_of(epoch=3), snapshot_of(leader=2, epoch=3)).snapshot.leader(TP) == NODES[2]
    )


def test_a_response_without_epochs_is_accepted() -> None:
    assert (
        known(snapshot_of(epoch=3), snapshot_of(leader=2, epoch=-1)).snapshot.leader(TP) == NODES[2]
    )


def test_a_recreated_topic_replaces_the_old_one() -> None:
    snapshot = known(
        snapshot_of(epoch=9, topic_id=UUID(int=1)),
        snapshot_of(leader=2, epoch=0, topic_id=UUID(int=2)),
    ).snapshot
    assert snapshot.leader(TP) == NODES[2]
    assert snapshot.topic_names == {UUID(int=2): "a"}


def test_only_a_partial_response_keeps_other_topics() -> None:
    assert known(snapshot_of("a"), snapshot_of("b")).snapshot.topics.keys() == {"a", "b"}
    assert known(snapshot_of("a"), snapshot_of("b"), partial=False).snapshot.topics.keys() == {"b"}


def test_errors_of_topics_are_replaced() -> None:
    failed = ClusterSnapshot(nodes=NODES, topic_errors={"a": errors.InvalidTopicError})
    metadata = known(snapshot_of("a"), failed)
    assert metadata.snapshot.topics == {}
    assert metadata.snapshot.topic_errors == {"a": errors.InvalidTopicError}
    metadata.update(snapshot_of("b"), partial=True)
    assert "a" in metadata.snapshot.topic_errors
    metadata.update(snapshot_of("a"), partial=True)
    assert metadata.snapshot.topic_errors == {}


def test_every_update_is_a_new_version_and_old_snapshots_do_not_change() -> None:
    metadata = known(snapshot_of())
    old = metadata.snapshot
    metadata.update(snapshot_of(leader=2, epoch=4), partial=True)
    assert metadata.snapshot.version == old.version + 1
    assert old.leader(TP) == NODES[1]


@pytest.mark.behaviour(160)
def test_a_hint_is_accepted_only_if_newer_and_its_broker_is_known() -> None:
    metadata = known(snapshot_of(epoch=3))
    assert not metadata.update_leader(TP, (2, 3), ())
    assert not metadata.update_leader(TP, (7, 4), ())
    assert not metadata.update_leader(TopicPartition("b", 0), (2, 4), ())
    version = metadata.snapshot.version
    newcomer = Node(7, "10.0.0.7", 9092)
    assert metadata.update_leader(TP, (7, 4), (newcomer,))
    assert metadata.snapshot.leader(TP) == newcomer
    assert metadata.snapshot.version == version + 1


@pytest.mark.behaviour(172)
def test_rebootstrap_forgets_brokers_and_keeps_topics() -> None:
    metadata = known(snapshot_of())
    metadata.rebootstrap()
    assert metadata.nodes() == (Node(-1, "10.0.0.9", 9092),)
    assert "a" in metadata.snapshot.topics
    metadata.rebootstrap()
    assert metadata.rebootstraps == 1


def test_an_older_epoch_that_responses_repeat_is_accepted() -> None:
    """The newer epoch was wrong: a bit was changed in transit."""
    metadata = known(snapshot_of(epoch=3), snapshot_of(leader=2, epoch=1_000_003))
    for second in range(10):
        metadata.update(snapshot_of(epoch=3), partial=True, now_ms=second * 1_000)
        assert metadata.snapshot.leader(TP) == NODES[2]
    metadata.update(snapshot_of(epoch=3), partial=True, now_ms=10_000)
    assert metadata.snapshot.leader(TP) == NODES[1]
    assert metadata.snapshot.leader_epoch(TP) == 3


def test_an_older_epoch_that_occurs_now_and_then_is_not_accepted() -> None:
    """Only stale brokers send it."""
    metadata = known(snapshot_of(leader=2, epoch=4))
    for second in range(40):
        older = second % 4 < 3
        response = snapshot_of(epoch=3) if older else snapshot_of(leader=2, epoch=4)
        metadata.update(response, partial=True, now_ms=second * 10_000)
        assert metadata.snapshot.leader(TP) == NODES[2]


def test_a_hint_that_metadata_contradict_is_dropped_unless_confirmed() -> None:
    metadata = known(snapshot_of(epoch=3))
    assert metadata.update_leader(TP, (2, 1_000_003), ())
    metadata.update(snapshot_of(epoch=3), partial=True, now_ms=1_000)
    assert metadata.snapshot.leader(TP) == NODES[1]
    assert metadata.update_leader(TP, (2, 4), ())
    metadata.confirm_leader(TP)
    metadata.update(snapshot_of(epoch=3), partial=True, now_ms=2_000)
    assert metadata.snapshot.leader(TP) == NODES[2]


def test_brokers_named_by_a_response_may_be_retried() -> None:
    metadata = known(snapshot_of(epoch=3))
    assert set(metadata.take_retry_nodes()) == {1, 2}
    metadata.update(snapshot_of(epoch=3), partial=True)
    assert not metadata.take_retry_nodes()
    metadata.update(snapshot_of(leader=2, epoch=4), partial=True)
    assert set(metadata.take_retry_nodes()) == {2}
    metadata.update_leader(TP, (1, 5), ())
    assert set(metadata.take_retry_nodes()) == {1}
