"""The acknowledgements in ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafka import errors

from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.share_groups import ShareGroups
from tandem_kafka_testing.coordinator.step import Error
from tandem_kafka_testing.share.partition import REJECT, RENEW, Acknowledgement
from tandem_kafka_testing.share.sessions import PartitionKey

_FIRST_WITH_RENEWALS = 2


def has_acknowledgements(request: Any) -> bool:
    """Return whether a request acknowledges records."""
    return any(p.acknowledgement_batches for topic in request.topics for p in topic.partitions)


def acknowledge(call: Call) -> dict[PartitionKey, Error]:
    """Acknowledge the records in a request; returns the result of each partition with any.

    The records stay acquired until `finish`.
    """
    return {
        (topic.topic_id, entry.partition_index): _acknowledge(
            call, (topic.topic_id, entry.partition_index), entry.acknowledgement_batches
        )
        for topic in call.request.topics
        for entry in topic.partitions
        if entry.acknowledgement_batches
    }


def _acknowledge(call: Call, key: PartitionKey, batches: Iterable[Any]) -> Error:
    request, groups = call.request, ShareGroups(call.cluster, call.broker)
    if call.cluster.topic_named(None, key[0]) is None:
        return errors.UnknownTopicIdError
    wanted = [
        Acknowledgement(each.first_offset, each.last_offset, tuple(each.acknowledge_types or ()))
        for each in batches
    ]
    if not _are_valid(call, wanted):
        return errors.InvalidRequestError
    share = groups.loaded(request.group_id, key)
    if share is None:
        return errors.UnknownTopicOrPartitionError
    error = share.acknowledge(request.member_id, wanted, call.cluster.clock.now_ms())
    groups.await_locks(request.group_id, key)
    return error


def finish(call: Call, keys: Iterable[PartitionKey]) -> None:
    """Write what a request has acknowledged."""
    groups = ShareGroups(call.cluster, call.broker)
    for key in keys:
        share = groups.loaded(call.request.group_id, key)
        if share is not None:
            share.finish()
    groups.wake()


def _are_valid(call: Call, batches: Sequence[Acknowledgement]) -> bool:
    """Return whether the ranges are in order, with the types that the version knows."""
    renews = call.version >= _FIRST_WITH_RENEWALS
    highest = RENEW if renews else REJECT
    previous = -1
    for each in batches:
        in_order = previous <= each.first <= each.last
        fits = len(each.types) in (1, each.last - each.first + 1)
        if not (in_order and fits and all(0 <= kind <= highest for kind in each.types)):
            return False
        if RENEW in each.types and not call.request.is_renew_ack:
            return False
        previous = each.last
    return True
