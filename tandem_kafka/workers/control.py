"""A run of keyed workers: follows positions and rebalances, and commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from tandem_kafka import AsyncKafkaConsumer, KafkaConsumer
from tandem_kafka.errors import CommitDuringRebalanceError, IllegalStateError, KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Clock, Runtime
from tandem_kafka.types import OffsetOfTopic, TopicPartition, names_of
from tandem_kafka.workers.commits import WorkerCommits
from tandem_kafka.workers.ports import ConsumerPort
from tandem_kafka.workers.progress import PartitionProgress, as_metrics, progress_of
from tandem_kafka.workers.restoring import Restoring
from tandem_kafka.workers.run import CHECK_MS, COMMIT_MS, Crew, Run, Runs
from tandem_kafka.workers.settings import WorkerSettings
from tandem_kafka.workers.threads import new_lock
from tandem_kafka.workers.workload import Workload

log = client_logger(__name__)


class Control(Run):
    """Runs the workers of one consumer."""

    _workload: Workload

    def __init__(
        self,
        port: ConsumerPort,
        workload: Workload,
        crew: Crew,
        clock: Clock,
        settings: WorkerSettings,
    ) -> None:
        super().__init__(workload, crew, clock, settings.drain_timeout_ms)
        self._port = port
        self._settings = settings
        self._commits = WorkerCommits(port, workload, clock, settings.commit_interval_ms)
        self._restoring = Restoring(port, workload, clock)
        self._running = False
        #: What this object has paused.
        self._paused: set[TopicPartition] = set()
        self._full = False
        #: Where the consumer must continue after the run, until it does.
        self._owed: dict[TopicPartition, OffsetOfTopic] = {}
        workload.on_room = port.wakeup

    # --- from any thread -----------------------------------------------------------------------

    def stop(self) -> None:
        """End the run."""
        super().stop()
        self._port.wakeup()

    def progress(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the progress of the assigned partitions."""
        with self._workload.lock:
            now_ms, paused = self._clock.now_ms(), frozenset(self._paused)
            return {
                tp: progress_of(part, now_ms, paused=tp in paused)
                for tp, part in sorted(self._workload.parts.items())
            }

    # --- the run -------------------------------------------------------------------------------

    async def begin(self, listener: Any) -> None:
        """Start the workers, subscribe, and take over the assigned partitions."""
        self._running = True
        self._crew.start()
        pattern = self._settings.pattern
        if pattern is not None:
            await self._port.subscribe(pattern, listener)
        elif self._port.subscription() is not None:
            self._port.listen(listener)
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

    async def _drain_all(self, deadline_ms: int) -> None:
        await self._drain(tuple(self._workload.parts), deadline_ms)

    async def _save(self, deadline_ms: int) -> KafkaError | None:
        return await self._commit_at_end(self._clock.after_ms(self._left_ms(deadline_ms)))

    async def conclude(self, deadline_ms: int) -> None:
        """Seek each partition to its first record that is not done.

        However a run ends, the positions are given back: a later run would commit past the
        records that were dropped.
        """
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
        """Resume what is paused, and seek each partition to its first record that is not done.

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
        if await self._drained(lambda: not any(part.running for part in parts), deadline_ms):
            return
        late = [part.tp for part in parts if part.running]
        log.warning(
            "handlers of %s were still running when the drain ended (drain_timeout_ms=%s); what "
            "they do from now on is not committed, and their records are handled again",
            names_of(late),
            self._settings.drain_timeout_ms,
        )

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
        except BaseException:
            # As at the end of a run: an interrupt ends the drain, not the commit of what is done.
            await self._commits.commit_now(partitions, COMMIT_MS)
            raise
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


class KeyedRuns(Runs[Control]):
    """Keeps track of the runs of `KeyedWorkers` or `AsyncKeyedWorkers`."""

    def __init__(
        self,
        consumer: KafkaConsumer[Any, Any] | AsyncKafkaConsumer[Any, Any],
        settings: WorkerSettings,
    ) -> None:
        settings.check(consumer.config)
        super().__init__(Runtime.threaded(), consumer.log_names)
        self._consumer: Any = consumer  # of the kind that the subclass takes
        self._settings = settings

    def _new_control(self, port: ConsumerPort, crew_of: Callable[[Workload], Crew]) -> Control:
        settings, clock = self._settings, self._runtime.clock
        workload = Workload(settings, clock, self._runtime.random, new_lock(), self._client)
        return Control(port, workload, crew_of(workload), clock, settings)

    def progress(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the progress of each assigned partition; empty while ``run()`` is not running.

        Any thread may call this.
        """
        control = self._control
        return {} if control is None else control.progress()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the figures of ``progress()`` by group and name, as the consumer's ``metrics()``.

        The group ``workers-metrics`` has the sums. Each partition has a separate group, for
        example ``workers-metrics.topic-orders.partition-0``. An unknown offset is -1. Ages are in
        milliseconds.
        """
        return as_metrics(self.progress())
