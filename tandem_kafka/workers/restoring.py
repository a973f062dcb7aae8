"""Reads the commits of earlier owners of a partition before its records are handled."""

from __future__ import annotations

from tandem_kafka.errors import KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Clock
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka.workers import done_map
from tandem_kafka.workers.assignment import WorkedPartition
from tandem_kafka.workers.done_map import DoneMap, ForeignMetadataError
from tandem_kafka.workers.ports import ConsumerPort
from tandem_kafka.workers.workload import Workload

log = client_logger(__name__)

#: How long one lookup may take, and how long lookups may continue without a poll().
LOOKUP_MS = 5_000
AT_ONCE_MS = 1_000
#: The pause after a failed lookup.
BACKOFF_MS = 250
#: The same for the end of a log, at first: a leader that is missing must not delay other
#: partitions. Each further lookup takes twice the time, as the leader may only be slow.
END_LOOKUP_MS = 1_000
END_BACKOFF_LOOKUPS = 10


class Restoring:
    """Looks up the committed offsets and metadata of newly assigned partitions.

    The lookups are made between calls of poll(), not inside the rebalance listener. A coordinator
    that does not respond therefore delays records but does not delay a rebalance.
    """

    def __init__(self, port: ConsumerPort, workload: Workload, clock: Clock) -> None:
        self._port = port
        self._workload = workload
        self._clock = clock
        self._retry_ms = 0
        self._failing = False
        self._warned = False

    def _unread(self) -> list[WorkedPartition]:
        with self._workload.lock:
            return [part for part in self._workload.parts.values() if not part.restored]

    def _due_ms(self, part: WorkedPartition) -> int:
        return max(self._retry_ms, part.lookup_ms)

    @property
    def next_ms(self) -> int | None:
        """When the next lookup is due, or None."""
        return min(map(self._due_ms, self._unread()), default=None)

    async def restore(self) -> None:
        """Look up what is missing, for a limited time.

        Raises:
            KafkaError: The lookup failed, and a retry cannot succeed.
        """
        clock = self._clock
        until_ms = clock.now_ms() + AT_ONCE_MS
        for part in self._unread():
            if not self._retry_ms <= clock.now_ms() <= until_ms:
                return
            if self._due_ms(part) > clock.now_ms():
                continue
            try:
                committed = await self._port.committed(part.tp, LOOKUP_MS)
            except KafkaError as error:
                self._retry_ms = clock.now_ms() + BACKOFF_MS
                self._note_failure(part, "committed offset", error)
                return
            done = self._decoded(part, committed)
            if done.ranges:
                # Invariant: none of them is believed beyond the end of the log. Records that come
                # there later would be skipped.
                timeout_ms = min(LOOKUP_MS, END_LOOKUP_MS << part.failed_lookups)
                try:
                    done = done.before(await self._port.end_offset(part.tp, timeout_ms))
                except KafkaError as error:
                    part.failed_lookups += 1
                    part.lookup_ms = clock.now_ms() + END_BACKOFF_LOOKUPS * timeout_ms
                    self._note_failure(part, "end", error)
                    continue
            self._failing = False
            with self._workload.lock:
                self._workload.restore(part, committed, done)

    def _note_failure(self, part: WorkedPartition, what: str, error: KafkaError) -> None:
        if not error.retriable:
            raise error
        if not self._failing:
            log.warning(
                "the %s of %s-%s cannot be read; its records wait until it can: %s",
                what,
                *part.tp,
                error,
            )
        self._failing = True

    def _decoded(self, part: WorkedPartition, committed: OffsetAndMetadata | None) -> DoneMap:
        if committed is None:
            return DoneMap()
        try:
            return done_map.decode(part.tp, committed.offset, committed.metadata or "")
        except ForeignMetadataError as error:
            if not self._warned:
                log.warning(
                    "the metadata of the committed offset %s of %s-%s is ignored, so all records "
                    "from there on are handled: %s; further ones are not reported",
                    committed.offset,
                    *part.tp,
                    error,
                )
            self._warned = True
            return DoneMap()
