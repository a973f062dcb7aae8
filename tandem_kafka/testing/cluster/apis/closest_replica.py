"""The replica from which a consumer reads (KIP-392)."""

from __future__ import annotations

from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.topics import SimPartition

__all__ = ["may_serve", "nearer_replica"]

#: From this version on, requests have the rack of the consumer, and followers respond.
_FIRST_WITH_RACKS = 11


def may_serve(call: Call, partition: SimPartition) -> bool:
    """Return whether this broker handles the fetch, as leader or as follower."""
    me = call.broker.node_id
    if me == partition.leader:
        return True
    return call.version >= _FIRST_WITH_RACKS and me in partition.replicas


def nearer_replica(call: Call, partition: SimPartition, offset: int) -> int | None:
    """Return the follower that the leader recommends instead of records, None for no follower.

    The follower is in the consumer's rack, in sync, and has the offset. Of several, it is the one
    with the highest id, because they do not differ otherwise.
    """
    cluster, rack = call.cluster, call.request.rack_id
    forwarded = call.version >= _FIRST_WITH_RACKS and bool(rack) and bool(cluster.racks)
    if not forwarded or call.broker.node_id != partition.leader or call.broker.rack == rack:
        return None
    if not partition.log.start_offset <= offset <= partition.log.end_offset:
        return None
    near = [node for node in cluster.in_sync(partition) if cluster.brokers[node].rack == rack]
    return max(near, default=None)
