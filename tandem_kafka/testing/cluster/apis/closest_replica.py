"""Which replica of a partition a consumer reads from (KIP-392)."""

from __future__ import annotations

from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.testing.cluster.topics import SimPartition

__all__ = ["may_serve", "nearer_replica"]

#: A request says from then on in which rack the consumer is, and followers answer it.
_FIRST_WITH_RACKS = 11


def may_serve(call: Call, partition: SimPartition) -> bool:
    """Tell whether this broker answers a consumer's fetch: as leader, or as follower."""
    me = call.broker.node_id
    if me == partition.leader:
        return True
    return call.version >= _FIRST_WITH_RACKS and me in partition.replicas


def nearer_replica(call: Call, partition: SimPartition, offset: int) -> int | None:
    """Return the follower that the leader names in place of records, None if it answers itself.

    It is one in the consumer's rack that is in sync and has the offset; of several the one with
    the highest number, as they are the same otherwise.
    """
    cluster, rack = call.cluster, call.request.rack_id
    asked = call.version >= _FIRST_WITH_RACKS and bool(rack) and bool(cluster.racks)
    if not asked or call.broker.node_id != partition.leader or call.broker.rack == rack:
        return None
    if not partition.log.start_offset <= offset <= partition.log.end_offset:
        return None
    near = [node for node in cluster.in_sync(partition) if cluster.brokers[node].rack == rack]
    return max(near, default=None)
