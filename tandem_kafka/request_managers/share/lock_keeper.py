"""What becomes of locks: they are acknowledged, renewed or released.

What waits here for half of its lock is renewed within bounds, or released: see `fetch_limits.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tandem_kafka.errors import UnsupportedVersionError
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.share.fetch_limits import FetchLimits
from tandem_kafka.request_managers.share.outcomes import LATE, LOST, Outcomes
from tandem_kafka.request_managers.share.session import (
    FIRST_VERSION_WITH_RENEWAL,
    Acknowledged,
    ShareSession,
)
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import Acknowledgement, AcknowledgeType, LockedPartition, LockedRun
from tandem_kafka.types import TopicPartition

log = client_logger(__name__)

#: The shortest time between two attempts to renew a lock.
_RENEW_PAUSE_MS: Final = 100


class LockKeeper:
    """Adds to the sessions what they are to send for their locks.

    Args:
        context: What the managers share.
        records: What crosses to the application.
        sessions: The sessions by their brokers.
        outcomes: What became of acknowledgements.
        limits: How many records may wait.

    Attributes:
        closing: Whether the consumer closes.
    """

    def __init__(
        self,
        context: ManagerContext,
        records: LockedRecords,
        sessions: Mapping[int, ShareSession],
        outcomes: Outcomes,
        limits: FetchLimits,
    ) -> None:
        self._context = context
        self._records = records
        self._sessions = sessions
        self._outcomes = outcomes
        self._limits = limits
        self.closing = False
        self._supported = True
        #: When to renew locks again if there is no response.
        self._renewing: dict[LockedRun | LockedPartition, int] = {}

    # --- acknowledgements ------------------------------------------------------------------------

    def take_acknowledgements(self) -> None:
        """Add to each session what the application has acknowledged; see `LockedRecords`."""
        now_ms = self._context.clock.now_ms()
        made = self._records.take_acknowledgements()
        self._outcomes.taken(made, now_ms)
        for each in made:
            session = self._sessions.get(each.partition.node_id)
            if each.run is None and not each.partition.is_locked(now_ms):
                continue
            if each.partition.lost or session is None:
                self._outcomes.dropped([each], LOST)
            elif each.run_is_over:
                self._outcomes.dropped([each], LATE)
            else:
                session.acknowledge(each, self._outcomes.number)

    def release(self, partition: LockedPartition, ranges: Iterable[tuple[int, int]]) -> None:
        """Release what the application has not claimed."""
        session = self._sessions.get(partition.node_id)
        if session is None or not partition.is_locked(self._context.clock.now_ms()):
            return
        for first, last in ranges:
            release = Acknowledgement(partition, first, last, AcknowledgeType.RELEASE, None)
            session.acknowledge(release, self._outcomes.number)

    # --- what waits ------------------------------------------------------------------------------

    def release_unwanted(self) -> None:
        """Release what the application is not given: it does not want it, or is too slow.

        Invariant: the records of a slow application are released here, not by its next call.
        """
        now_ms, limits = self._context.clock.now_ms(), self._limits
        ends = self.closing or self._records.resting
        kept = 0
        for each in (*self._records.ahead(),):
            if ends or not self.is_subscribed(each.tp):
                self.release(each, self._records.withdraw(each))
            elif now_ms >= each.usable_until_ms:
                limits.note_unused(each, now_ms)
                self.release(each, self._records.withdraw(each))
            elif self._supported and now_ms >= each.kept_from_ms:
                most = max(0, limits.most_kept(each, now_ms) - kept)
                kept += min(most, each.ahead)
                if each.ahead > most:
                    limits.note_unused(each, now_ms)
                    self.release(each, self._replace(each, most))

    def _replace(
        self, partition: LockedPartition, most: int, times: tuple[int, int] | None = None
    ) -> list[tuple[int, int]]:
        """Offer the first records of what waits anew, and return the ranges of the others.

        Args:
            partition: What waits.
            most: The number of records.
            times: If their locks were renewed, the times of the request and its response.
        """
        rest, others = partition.split(most)
        self._records.discard(partition)
        if rest.ahead:
            if times is not None:
                rest.requested_ms, rest.received_ms = times
                rest.lock_ms = self._records.lock_ms
            self._sessions[rest.node_id].locked.append(rest)
            self._records.add_again(rest)
        return others

    def is_subscribed(self, tp: TopicPartition) -> bool:
        """Tell whether the application wants records of a partition."""
        return tp.topic in self._context.subscription.topics

    def outdated_in_ms(self, now_ms: int) -> int:
        """Return when something that waits may no longer be handed out."""
        due_ms = min((each.usable_until_ms for each in self._records.ahead()), default=None)
        return FOREVER_MS if due_ms is None else max(1, due_ms - now_ms)

    # --- renewals --------------------------------------------------------------------------------

    def renew(self, now_ms: int) -> int:
        """Renew the locks that soon end, in work and of what waits; return when to look again."""
        renew_ms = self._records.renew_ms
        if not self._supported:
            return FOREVER_MS
        wait_ms = FOREVER_MS
        handed = self._records.handed()
        works = [run for run in handed if run.came_late or now_ms < run.handed_ms + renew_ms]
        renewable: list[LockedRun | LockedPartition] = [*works, *self._records.ahead()]
        for each in renewable:
            partition = each.partition if isinstance(each, LockedRun) else each
            session = self._sessions.get(partition.node_id)
            if partition.lost or session is None:
                continue
            if now_ms < each.renew_from_ms:
                wait_ms = min(wait_ms, each.renew_from_ms - now_ms)
                continue
            # The response sets when it is due again. Without one, there is another attempt.
            wait_ms = min(wait_ms, max(_RENEW_PAUSE_MS, (each.sure_until_ms - now_ms) // 2))
            if now_ms >= self._renewing.get(each, 0):
                self._renewing[each] = now_ms + wait_ms
                if isinstance(each, LockedRun):
                    session.renew(each, self._outcomes.number)
                else:
                    session.keep(each, self._outcomes.number)
        self._renewing = {each: due for each, due in self._renewing.items() if due > now_ms}
        return wait_ms

    def renewed(self, acknowledged: Acknowledged, times: tuple[int, int]) -> None:
        """Note that locks were renewed, with the times of the request and its response."""
        lock_ms = self._records.lock_ms
        lock_times = times[0] + lock_ms, times[1] + lock_ms
        for run, (first, last) in acknowledged.whole.items():
            if run.forgotten:
                continue  # what it was given is acknowledged no more
            if run.given - 1 > last:  # it was given more since
                run.renew_locks(first, last, lock_times)
            else:
                run.renew_all(lock_times)
        for each in acknowledged.asked:
            if each.run is not None and not each.run_is_over:
                each.run.renew_locks(each.first, each.last, lock_times)
        for partition in acknowledged.kept:
            if not partition.lost:
                self._replace(partition, partition.ahead, times)

    def note_unsupported(self, session: ShareSession, error: UnsupportedVersionError) -> None:
        """Note that the brokers cannot renew locks, as the answer to a renewal."""
        self._supported = False
        sent = session.take_sent().values()
        if any(each.asked or each.whole for each in sent):
            log.warning(
                "the brokers cannot renew locks (KIP-1222 needs ShareAcknowledge version %d, Kafka "
                "4.2): a record whose handler runs longer than its lock is delivered again",
                FIRST_VERSION_WITH_RENEWAL,
            )
        self._outcomes.unanswered(sent, error)
        session.unsent()
        if any(each.asked for each in sent) and not self._records.renew_ms:
            self._context.raise_in_poll(error)
