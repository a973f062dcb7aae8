"""`PartitionProgress`: how far a partition is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tandem_kafka.types import TopicPartition
from tandem_kafka.workers.assignment import WorkedPartition

GROUP = "workers-metrics"


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one assigned partition.

    Attributes:
        base: The lowest offset that is not done, which is the offset to commit. None until the
            position is known.
        next_offset: The offset after the last record given to the workers; None like ``base``.
        gaps: Number of ranges of records that are not done, with later records done. Each one
            takes a few bytes of the commit's metadata.
        in_work: Number of records that wait for a worker or a retry, or are with a worker.
        running: Number of calls of the handler that have not returned.
        oldest_offset: Offset of the oldest of these records, None without one. It is ``base``.
        oldest_age_ms: How long ago the workers got it, in milliseconds; 0 without one.
        retries: How often a record was queued for another attempt in this assignment.
        paused: Whether the workers get no more records, because ``max_in_flight`` or
            ``metadata_limit_bytes`` is reached, or the committed metadata is not read yet.
    """

    base: int | None
    next_offset: int | None
    gaps: int
    in_work: int
    running: int
    oldest_offset: int | None
    oldest_age_ms: int
    retries: int
    paused: bool


def progress_of(part: WorkedPartition, now_ms: int, *, paused: bool) -> PartitionProgress:
    """Return the progress of a partition."""
    offsets = part.offsets
    oldest = next(iter(offsets.pending.values()), None)
    return PartitionProgress(
        base=offsets.base,
        next_offset=offsets.next_offset,
        gaps=len(offsets.done_ranges()),
        in_work=len(offsets.pending),
        running=part.running,
        oldest_offset=None if oldest is None else oldest.record.offset,
        oldest_age_ms=0 if oldest is None else now_ms - oldest.since_ms,
        retries=part.retries,
        paused=paused,
    )


def as_metrics(
    progress: Mapping[TopicPartition, PartitionProgress],
) -> dict[str, dict[str, float]]:
    """Return the same figures by group and name, as the consumer's ``metrics()`` does."""
    groups: dict[str, dict[str, float]] = {
        GROUP: {
            "records-in-work": sum(each.in_work for each in progress.values()),
            "handlers-running": sum(each.running for each in progress.values()),
            "record-age-max": max((each.oldest_age_ms for each in progress.values()), default=0),
            "retries-total": sum(each.retries for each in progress.values()),
            "partitions-paused": sum(each.paused for each in progress.values()),
        }
    }
    for tp, each in progress.items():
        topic = tp.topic.replace(".", "_")
        groups[f"{GROUP}.topic-{topic}.partition-{tp.partition}"] = {
            "base-offset": -1 if each.base is None else each.base,
            "gaps": each.gaps,
            "records-in-work": each.in_work,
            "handlers-running": each.running,
            "oldest-offset": -1 if each.oldest_offset is None else each.oldest_offset,
            "record-age": each.oldest_age_ms,
            "retries": each.retries,
        }
    return groups
