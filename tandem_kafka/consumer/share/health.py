"""The health of a share consumer: that of other consumers, with its own partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.health import Health, PartitionHealth, health_of, without_leader
from tandem_kafka.state.group import NO_GENERATION
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.types import TopicPartition


def share_health(core: Core, records: LockedRecords) -> Health:
    """Return the health of a share consumer; any thread may call this, and it never waits."""
    assigned = records.assigned
    found = health_of(core, assigned)
    troubles = found.troubles
    if found.generation_id != NO_GENERATION and not assigned:
        group_id = found.group_id
        troubles += (f"the coordinator has assigned no partition of {group_id!r} to this member",)
    if records.comes_too_late:
        troubles += (f"records waited too long for poll(), and were released: {records.advice}",)
    broken = {each.node_id for each in core.engine.loop.broker_troubles(core.clock.now_ms())}
    return replace(
        found,
        partitions={
            tp: PartitionHealth(None, None, False, next(_stuck(core, tp, broken), None))
            for tp in sorted(assigned)
        },
        troubles=troubles,
    )


def _stuck(core: Core, tp: TopicPartition, broken: set[int]) -> Iterator[str]:
    """Say why no record of a partition comes."""
    metadata = core.engine.metadata
    info, without = metadata.snapshot.partition(tp), without_leader(metadata.snapshot, tp)
    if without is not None:
        yield without
    elif info is not None and info.leader_id in {*metadata.unreachable, *broken}:
        yield f"its leader, broker {info.leader_id}, cannot be used"
