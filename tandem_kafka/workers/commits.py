"""When the workers commit, and what follows from the outcome."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import sys
from collections.abc import Iterable
from functools import partial

from kafka.errors import OffsetMetadataTooLargeError

from tandem_kafka.errors import KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Clock
from tandem_kafka.types import (
    OffsetAndMetadata,
    TopicPartition,
    may_be_same_topic,
    offsets_text,
)
from tandem_kafka.workers.assignment import WorkedPartition
from tandem_kafka.workers.offsets import Snapshot
from tandem_kafka.workers.ports import ConsumerPort
from tandem_kafka.workers.workload import Workload

log = client_logger(__name__)

_Snapshots = dict[WorkedPartition, Snapshot]
_Offsets = dict[TopicPartition, OffsetAndMetadata]


class WorkerCommits:
    """Commits in the background at an interval, and at once before partitions are given up.

    Invariant: a rejected commit fences nothing. In a cooperative rebalance, a commit of the old
    generation is rejected while the member keeps its partitions. If the membership has ended, the
    rebalance listener is called with the lost partitions, and that fences them.
    """

    def __init__(
        self, port: ConsumerPort, workload: Workload, clock: Clock, interval_ms: float
    ) -> None:
        self._port = port
        self._workload = workload
        self._clock = clock
        self._interval_ms = interval_ms
        self.next_ms = clock.after_ms(interval_ms)
        self._in_flight = False
        self._failing = False
        self._too_long = False
        #: The longest metadata that may be sent: all, once a broker has refused longer ones, and
        #: for the commit that follows such a refusal.
        self._longest = self._longest_now = sys.maxsize

    async def begin_if_due(self) -> None:
        """Commit what has changed, once per interval; a failed commit is repeated at the next."""
        if self._clock.now_ms() < self.next_ms:
            return
        self.next_ms = self._clock.after_ms(self._interval_ms)
        if self._in_flight:
            return
        snapshots = self._take_snapshots(tuple(self._workload.parts), final=False)
        if snapshots:
            self._in_flight = True
            offsets = self._to_commit(snapshots)
            await self._port.begin_commit(offsets, partial(self._conclude, snapshots, offsets))

    async def commit_now(
        self, partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> KafkaError | None:
        """Commit partitions that are given up, and wait; returns the error of a failed commit."""
        snapshots = self._take_snapshots(partitions, final=True)
        if not snapshots:
            return None
        offsets = self._to_commit(snapshots)
        deadline_ms = self._clock.after_ms(timeout_ms)
        try:
            try:
                await self._port.commit(offsets, timeout_ms)
            except OffsetMetadataTooLargeError as error:
                self._note_refused(offsets, error)
                offsets = self._to_commit(snapshots)
                left_ms = max(1, deadline_ms - self._clock.now_ms())
                await self._port.commit(offsets, left_ms)
        except KafkaError as error:
            if not self.uncommitted(snapshots):
                log.info("the last commit was not repeated before the end: %s", error)
                return error
            log.warning(
                "offsets were not committed before the partitions were released, so records "
                "may be handled again: %s (%s)",
                offsets_text(offsets),
                error,
            )
            return error
        self._note_success(snapshots)
        return None

    def uncommitted(self, partitions: Iterable[WorkedPartition]) -> bool:
        """Whether these partitions have changed since their last successful commit."""
        with self._workload.lock:
            return any(part.offsets.snapshot() is not None for part in partitions)

    def _take_snapshots(self, partitions: Iterable[TopicPartition], *, final: bool) -> _Snapshots:
        """Return what to commit.

        Invariant: nothing of a deleted topic, until poll() tells where its partition begins in the
        new one. A request has one id for each topic, so it would be committed there, or nothing.
        """
        with self._workload.lock:
            found = self._workload.snapshots(partitions, final=final)
        return {
            part: snapshot
            for part, snapshot in found.items()
            if may_be_same_topic(snapshot.topic_id, self._port.topic_id(part.tp.topic))
        }

    def _to_commit(self, snapshots: _Snapshots) -> _Offsets:
        offsets: _Offsets = {}
        limit, self._longest_now = self._longest_now, self._longest
        for part, snapshot in snapshots.items():
            offsets[part.tp], left_out = snapshot.to_commit(part.tp, limit)
            if left_out and not self._too_long:
                self._too_long = True
                log.warning(
                    "metadata_limit_bytes has no room for %s done ranges of %s-%s, which an "
                    "earlier run with a higher limit has marked; their records may be handled "
                    "again",
                    left_out,
                    *part.tp,
                )
        return offsets

    def _note_refused(self, offsets: _Offsets, error: OffsetMetadataTooLargeError) -> None:
        """Let the next commit have no metadata, and later ones shorter ones."""
        size = max(len(each.metadata or "") for each in offsets.values())
        self._too_long = True
        self._longest, self._longest_now = size // 2, 0
        log.warning(
            "the broker refuses %d bytes of metadata (%s): the offsets are committed without the "
            "records done after them, which may be handled again; set metadata_limit_bytes to the "
            "broker's offset.metadata.max.bytes",
            size,
            error,
        )

    def _conclude(self, snapshots: _Snapshots, offsets: _Offsets, error: Exception | None) -> None:
        self._in_flight = False
        if isinstance(error, OffsetMetadataTooLargeError):
            self._note_refused(offsets, error)
            self.next_ms = self._clock.now_ms()
        elif error is None:
            if self._failing:
                log.info("offsets are committed again")
            self._failing = False
            self._note_success(snapshots)
        elif not self._failing:
            self._failing = True
            log.warning(
                "the commit failed and is repeated every %s ms until it succeeds: %s",
                self._interval_ms,
                error,
            )

    def _note_success(self, snapshots: _Snapshots) -> None:
        with self._workload.lock:
            for part, snapshot in snapshots.items():
                offsets = part.offsets
                offsets.committed_changes = max(offsets.committed_changes, snapshot.changes)
