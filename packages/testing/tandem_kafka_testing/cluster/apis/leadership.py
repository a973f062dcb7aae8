"""Checks of leadership and epochs."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.types import UNKNOWN_EPOCH
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.topics import SimPartition


def leadership_error(call: Call, partition: SimPartition | None, epoch: int) -> Any:
    """Return the error if this broker may not respond for a partition, None if it may."""
    if partition is None:
        return errors.UnknownTopicOrPartitionError
    stale = epoch_error(partition, epoch)
    if stale is not None:
        return stale
    if partition.leader != call.broker.node_id:
        return errors.NotLeaderForPartitionError
    return None


def epoch_error(partition: SimPartition, epoch: int) -> Any:
    """Return the error for a wrong leader epoch of the client, None if it is right."""
    if epoch in {UNKNOWN_EPOCH, partition.epoch}:
        return None
    if epoch < partition.epoch:
        return errors.FencedLeaderEpochError
    return errors.UnknownLeaderEpochError
