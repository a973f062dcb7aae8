"""The loop of `run()`: polls, hands out, commits, and drains. Written once for both drivers.

Invariant: the coroutines await only the methods of a `ConsumerPort` and a `Crew`. For
`KeyedWorkers` these block and never suspend; for `AsyncKeyedWorkers` they suspend.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from tandem_kafka.errors import CommitDuringRebalanceError, IllegalStateError, KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Clock
from tandem_kafka.types import OffsetOfTopic, TopicPartition, names_of
from tandem_kafka.workers.assignment import WorkedPartition
from tandem_kafka.workers.commits import WorkerCommits
from tandem_kafka.workers.ports import ConsumerPort
from tandem_kafka.workers.progress import PartitionProgress, progress_of
from tandem_kafka.workers.restoring import Restoring
from tandem_kafka.workers.settings import WorkerSettings
from tandem_kafka.workers.workload import Workload

log = client_logger(__name__)

Until = Callable[[], object]

#: The longest poll, without and with a condition that must be checked.
POLL_MS = 1_000
CHECK_MS = 100
#: A commit before partitions are given up has at least this long, even if draining took all time.
COMMIT_MS = 5_000


class Crew(Protocol):
    """Calls the handlers: threads, an executor, or tasks of an event loop."""

    def start(self) -> None:
        """Begin to call handlers."""
        ...

    def dispatch(self) -> None:
        """Hand ready tasks to idle workers."""
        ...

    def cancel(self, parts: Collection[WorkedPartition]) -> None:
        """Take tasks of these partitions back whose calls have not begun."""
        ...

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Wait until `ready()` or the deadline; return `ready()`."""
        ...

    async def end(self, deadline_ms: int) -> None:
        """End the workers, and wait for those that are idle until the deadline."""
        ...

    @property
    def next_ms(self) -> int | None:
        """When `dispatch` must be called, for a crew that has no worker to wait for it."""
        ...


class Control:
    """Runs the workers of one consumer.

    An object serves one run. A handler that outlives its run thus finds nothing that it could
    change.
    """

    def __init__(
        self,
        port: ConsumerPort,
        workload: Workload,
        crew: Crew,
        clock: Clock,
        settings: WorkerSettings,
    ) -> None:
        self._port = port
        self._workload = workload
        self._crew = crew
        self._clock = clock
        self._settings = settings
        self._commits = WorkerCommits(port, workload, clock, settings.commit_interval_ms)
        self._restoring = Restoring(port, workload, clock)
        self._running = False
        self._stop_requested = self._cancelled = False
        #: What this object has paused.
        self._paused: set[TopicPartition] = set()
        self._full = False
        #: Where the consumer must continue after the run, until it does.
        self._owed: dict[TopicPartition, OffsetOfTopic] = {}
        workload.on_room = port.wakeup

    # --- from any thread -----------------------------------------------------------------------

    def stop(self) -> None:
        """End the run."""
        self._stop_requested = True
        self._port.wakeup()

    @property
    def done(self) -> int:
        """Number of records done."""
        return self._workload.done

    def progress(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the progress of the assigned partitions."""
        with self._workload.lock:
            now_ms, paused = self._clock.now_ms(), frozenset(self._paused)
            return {
                tp: progress_of(part, now_ms, paused=tp in paused)
                for tp, part in sorted(self._workload.parts.items())
            }

    # --- the run -------------------------------------------------------------------------------

    async def run(self, until: Until | None, listener: Any) -> None:
        """Handle records until `stop`, `until()`, or a failure; then drain and commit."""
        failure: BaseException | None = None
        try:
            await self.begin(listener)
            while not self._is_over(until):
                await self.step(CHECK_MS if until is not None else POLL_MS)
        except BaseException as error:  # noqa: BLE001 - raised again after the commit
            failure = error
        # A cancelled task must end soon, so its handlers are cancelled without a drain.
        self._cancelled = isinstance(failure, CancelledError)
        unsaved = await self.end(0 if self._cancelled else self._settings.drain_timeout_ms)
        failure = failure or self._workload.failure or unsaved
        if failure is not None:
            raise failure

    async def begin(self, listener: Any) -> None:
        """Start the workers, subscribe, and take over the assigned partitions."""
        self._running = True
        self._crew.start()
        topics, pattern = self._port.subscription(), self._settings.pattern
        if pattern is not None:
            await self._port.subscribe(set(), pattern, listener)
        elif topics is not None:
            await self._subscribe_again(topics, listener)
        elif not self._port.assignment():
            msg = (
                "the consumer has no topics: name them in its constructor, or call subscribe() or "
                "assign() before run()"
            )
            raise IllegalStateError(msg)
        assigned = sorted(self._port.assignment())
        with self._workload.lock:
            self._workload.assign(assigned)
        self._port.tell_starts_again(assigned)

    async def _subscribe_again(self, topics: set[str], listener: Any) -> None:
        try:
            await self._port.subscribe(topics, None, listener)
        except IllegalStateError as error:
            msg = (
                "the consumer is subscribed to a pattern, and the workers cannot add their "
                "rebalance listener to it; do not call subscribe(), and pass pattern= to the "
                "workers"
            )
            raise IllegalStateError(msg) from error

    def _is_over(self, until: Until | None) -> bool:
        if self._stop_requested or self._workload.failure is not None:
            return True
        return until is not None and bool(until())

    async def step(self, longest_ms: int) -> None:
        """Commit, poll once, and hand out the records."""
        await self._commits.begin_if_due()
        await self._restoring.restore()
        with self._workload.lock:
            self._workload.hand_out_backlog()
        self._crew.dispatch()
        room = await self._apply_flow()
        batch = await self._port.poll(self._timeout_ms(longest_ms), room)
        if batch or batch.next_offsets or batch.starts:
            with self._workload.lock:
                self._workload.admit(batch, batch.next_offsets, batch.starts)
            self._crew.dispatch()

    def _timeout_ms(self, longest_ms: int) -> int:
        now_ms = self._clock.now_ms()
        if any(part.start is None for part in self._workload.parts.values()):
            longest_ms = min(longest_ms, CHECK_MS)  # poll() tells it, and does not return for it
        moments = (self._commits.next_ms, self._restoring.next_ms, self._crew.next_ms)
        due_ms = min((each for each in moments if each is not None), default=now_ms + longest_ms)
        return max(0, min(longest_ms, due_ms - now_ms))

    async def _apply_flow(self) -> int:
        """Pause and resume partitions; returns how many records may be polled."""
        workload, limit = self._workload, self._settings.max_in_flight
        lowest = limit // 2
        with workload.lock:
            # Invariant: what waits for a retry has a limit of its own. Otherwise a few records that
            # fail would keep the workers from all other keys.
            active = workload.active
            self._full = active > lowest if self._full else active >= limit
            self._full |= workload.retries_full
            workload.refill_at = lowest if self._full else -1
            held = {
                tp
                for tp, part in workload.parts.items()
                if self._full or part.backlog or not part.begun
            }
            room = max(1, limit - active)
        to_pause = held - self._paused
        to_resume = self._paused - held
        if to_pause:
            self._paused |= to_pause
            self._port.pause(*sorted(to_pause))
        if to_resume:
            self._port.resume(*sorted(to_resume))
            self._paused -= to_resume
        return room

    # --- the end -------------------------------------------------------------------------------

    async def end(self, drain_ms: float) -> BaseException | None:
        """Drain, commit, and let the consumer continue at what is not done.

        Whatever ends this, the positions are given back: a later run would commit past the
        records that were dropped.

        Args:
            drain_ms: How long running handlers may take.

        Returns:
            The error of the last commit.
        """
        deadline_ms = self._clock.after_ms(drain_ms)
        workload = self._workload
        try:
            with workload.lock:
                workload.stopped = True
                partitions = tuple(workload.parts)
            await self._drain(partitions, deadline_ms)
            return await self._commit_at_end(self._clock.after_ms(self._left_ms(deadline_ms)))
        except BaseException:
            deadline_ms = self._clock.now_ms()  # interrupted again: wait for nothing more
            raise
        finally:
            self._running = False
            try:
                self.give_back()
                await self._port.end()
            except IllegalStateError as error:
                # Another thread has closed or reassigned the consumer; nothing is left to correct.
                log.debug("positions are left as they are: %s", error)
            finally:
                await self._crew.end(deadline_ms)

    async def _commit_at_end(self, deadline_ms: int) -> KafkaError | None:
        """Commit; if the group is rebalancing, complete the rebalance first."""
        while True:
            left_ms = max(1, deadline_ms - self._clock.now_ms())
            error = await self._commits.commit_now(tuple(self._workload.parts), left_ms)
            if not isinstance(error, CommitDuringRebalanceError) or left_ms == 1:
                # A commit that only repeats the last one in vain is no failure of the run.
                return error if self._commits.uncommitted(self._workload.parts.values()) else None
            running = set(self._workload.parts) - self._paused
            if running:
                self._paused |= running
                self._port.pause(*sorted(running))  # no records: nobody would handle them
            batch = await self._port.poll(min(CHECK_MS, left_ms), 1)
            with self._workload.lock:
                self._workload.admit({}, batch.next_offsets, batch.starts)

    def give_back(self) -> None:
        """Resume what is paused, and let the consumer continue at what is not done.

        `poll()` has handed out the records that were dropped, so the positions have passed them.

        Invariant: no coroutine, so that no cancellation can arrive in between. Whatever an
        interrupt leaves, the next run gives back before it begins.
        """
        workload = self._workload
        with workload.lock:
            workload.stopped = True
            for tp, part in tuple(workload.parts.items()):
                if (base := part.base) is not None:
                    self._owed[tp] = base
                workload.fence([tp])
            workload.refill_at = -1
        self._full = False
        if not (self._owed or self._paused):
            return
        assigned = self._port.assignment()
        for tp, base in tuple(self._owed.items()):
            if tp in assigned:
                self._port.seek(tp, base)
            del self._owed[tp]
        paused = self._paused & assigned
        if paused:
            self._port.resume(*sorted(paused))
        self._paused = set()

    async def _drain(self, partitions: Iterable[TopicPartition], deadline_ms: int) -> None:
        """Drop the records that are queued, and wait for those that are running."""
        with self._workload.lock:
            parts = self._workload.drop_queued(partitions)
            for part in parts:
                part.draining = True
        self._crew.cancel(parts)
        ended = await self._crew.wait(lambda: not any(part.running for part in parts), deadline_ms)
        if ended or self._cancelled:  # a cancelled run() drains nothing
            return
        late = [part.tp for part in parts if part.running]
        log.warning(
            "handlers of %s were still running when the drain ended (drain_timeout_ms=%s); what "
            "they do from now on is not committed, and their records are handled again",
            names_of(late),
            self._settings.drain_timeout_ms,
        )

    def _left_ms(self, deadline_ms: int) -> int:
        return max(COMMIT_MS, deadline_ms - self._clock.now_ms())

    # --- rebalances, inside poll() -------------------------------------------------------------

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin these partitions; nothing is handed out before their metadata is read."""
        if not self._running:
            return
        with self._workload.lock:
            self._workload.assign(partitions)
        self._port.tell_starts_again(partitions)
        self._paused -= set(partitions)
        if partitions:
            self._paused |= set(partitions)
            self._port.pause(*partitions)

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Drain these partitions and commit them; whatever still runs then is fenced."""
        deadline_ms = self._clock.after_ms(self._settings.drain_timeout_ms)
        try:
            await self._drain(partitions, deadline_ms)
            await self._commits.commit_now(partitions, self._left_ms(deadline_ms))
        finally:
            self._forget(partitions)  # also after an interrupt: the rebalance continues

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Fence these partitions; another member may own them already."""
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        with self._workload.lock:
            parts = [self._workload.parts[tp] for tp in partitions if tp in self._workload.parts]
            self._workload.fence(partitions)
        self._crew.cancel(parts)
        self._paused -= set(partitions)
