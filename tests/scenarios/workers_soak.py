"""Workers that are cancelled and killed while topics are made again, and offsets out of range.

At the end, each record that the topic still has was handled, or somebody was told why not: a log
line, the function for what cannot be handled, or `starts` behind it with `auto_offset_reset` as
"latest".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from tandem_kafka.errors import KafkaError
from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.types import PositionStart, TopicPartition
from tandem_kafka.workers import AsyncKeyedWorkers, Retry
from tandem_kafka.workers.done_map import decode
from tandem_kafka_testing.faults import ClusterFaults
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.cancelling import MODES, Canceller
from tests.scenarios.catalogue import GROUP, Scenario
from tests.scenarios.violation import Violation

__all__ = ["run_workers_soak"]

#: Smaller than a broker's, so that runs reach it.
LIMIT_BYTES: Final = 80
MEMBERS: Final = 3
#: The records of the end, of each partition.
LAST: Final = 10
_KEYS: Final = 5


class Records:
    """What was produced, and what became of it.

    Attributes:
        done: The values of the records that were handled, or given up.
    """

    def __init__(self, simulation: Simulation, partitions: list[TopicPartition]) -> None:
        self._cluster = simulation.cluster
        self.partitions = partitions
        self.done: set[bytes] = set()
        self._values: dict[TopicPartition, dict[int, bytes]] = {tp: {} for tp in partitions}
        self._count = 0
        #: Where members were told to begin, other than at what is committed.
        self._begun: dict[tuple[TopicPartition, UUID], int] = {}

    def produce(self, tp: TopicPartition, count: int) -> None:
        """Append records that no other one is equal to."""
        first = self._cluster.at(tp).log.end_offset
        values = []
        for number in range(count):
            self._count += 1
            values.append(b"%d" % self._count)
            self._values[tp][first + number] = values[-1]
        self._cluster.produce(tp, *values)

    def forget(self, tp: TopicPartition) -> None:
        """Note that the log has lost records."""
        log = self._cluster.at(tp).log
        kept = range(log.start_offset, log.end_offset)
        self._values[tp] = {at: value for at, value in self._values[tp].items() if at in kept}

    def forget_all(self) -> None:
        """Note that the topic is another one."""
        for values in self._values.values():
            values.clear()

    def told(self, starts: dict[TopicPartition, PositionStart]) -> None:
        """Note where a member begins, because "latest" says so."""
        for tp, start in starts.items():
            if start.offset != self._cluster.committed(GROUP, tp):
                place = tp, start.topic_id
                self._begun[place] = max(start.offset, self._begun.get(place, 0))

    def missing(self) -> list[tuple[TopicPartition, int]]:
        """Return what was neither handled nor told."""
        return [
            (tp, offset)
            for tp, values in self._values.items()
            for offset, value in values.items()
            if value not in self.done and offset >= self._begun.get((tp, self._id_of(tp)), 0)
        ]

    def _id_of(self, tp: TopicPartition) -> UUID:
        found: UUID = self._cluster.topics[tp.topic].topic_id
        return found

    def check_commits(self) -> None:
        """Check that the commits mark nothing else.

        Raises:
            Violation: They do.
        """
        missing = set(self.missing())
        committed = self._cluster.coordination.of(GROUP).offsets.committed
        for tp in self.partitions:
            if (commit := committed.get(tp)) is None:
                continue
            ranges = decode(tp, commit.offset, commit.metadata or "").ranges
            for first, end in ((0, commit.offset), *ranges):
                marked = sorted(missing & {(tp, offset) for offset in range(first, end)})
                if marked:
                    raise Violation(f"{marked} are marked as done, and no handler has returned")


class Faults(ClusterFaults):
    """What happens to brokers and topics."""

    def __init__(self, simulation: Simulation, records: Records, random: Random) -> None:
        super().__init__(simulation.cluster, random)
        self._records = records
        self.counts: dict[str, int] = {}
        brokers = [self.crash, self.restart, self.lead, self.coordinate, self.fail_over]
        links = [self.cut, self.slow_down, self.silence, self.expel]
        self._kinds: list[Any] = [*brokers, *links, *[self.recreate, self.expire, self.lose] * 2]
        conditions = self._network.conditions
        conditions.latency_ms = (1, random.choice([2, 20, 150]))
        conditions.loss = random.choice([0.0, 0.01])

    def _partitions(self) -> list[TopicPartition]:
        return self._records.partitions

    def _groups(self) -> list[str]:
        return [GROUP]

    def cause_one(self) -> None:
        """Cause a random fault."""
        cause = self._random.choice(self._kinds)
        self.counts[cause.__name__] = self.counts.get(cause.__name__, 0) + 1
        cause()

    def recreate(self) -> None:
        """The topic is deleted, and created again with other records."""
        self._cluster.recreate_topic(self._records.partitions[0].topic)
        self._records.forget_all()
        for tp in self._records.partitions:
            self._records.produce(tp, self._random.randrange(self._random.choice([5, 80])))

    def expire(self, **_: Any) -> None:
        """Retention drops records, read or not."""
        tp = self._random.choice(self._records.partitions)
        super().expire(topic=tp.topic, partition=tp.partition)
        self._records.forget(tp)

    def lose(self) -> None:
        """An unclean election loses the last records."""
        tp, node_id = self._random.choice(self._records.partitions), self._up()
        log = self._cluster.at(tp).log
        if node_id is not None:
            lost_from = self._random.randint(log.start_offset, log.end_offset)
            self._cluster.move_leader(tp, node_id, lost_from)
            self._records.forget(tp)


class Member:
    """A program that runs workers, again and again."""

    def __init__(self, soak: Soak, number: int) -> None:
        self._soak = soak
        self._random = Random(f"{soak.simulation.seed}/member {number}")
        self._lasts_s = self._random.choice([0.001, 0.02, 0.3])
        self.killed = False

    async def live(self) -> None:
        """Start, and start again after the program was killed, until the end."""
        while not self._soak.over:
            self.killed = False
            with suppress(KafkaError):  # no broker could be reached
                await self._once()
            await asyncio.sleep(0.5)

    async def _once(self) -> None:
        consumer = self._soak.simulation.async_consumer("orders", **self._soak.options())
        await consumer.start()
        try:
            workers = self._workers_of(consumer)
            until_s = self._random.choice([3, 30, 300])
            ends = asyncio.get_running_loop().time() + until_s
            while not (self._soak.over or self.killed):
                if self._soak.chaos and asyncio.get_running_loop().time() > ends:
                    if self._random.random() < 0.5:
                        self._kill(consumer)
                    break
                await self._run(workers)
        finally:
            if not self.killed:
                await consumer.close()

    def _kill(self, consumer: Any) -> None:
        """End the program: it sends nothing more."""
        consumer._core.driver.parked.stalled_until_ms = 2**60
        consumer._core.closed = self.killed = True

    async def _run(self, workers: AsyncKeyedWorkers[Any, Any]) -> None:
        """Run the workers once, until a time, a cancellation, or a failure."""
        loop, random = asyncio.get_running_loop(), self._random
        ends = loop.time() + random.choice([0.3, 3, 20])
        calm = not self._soak.chaos
        run = workers.run(until=lambda: self._soak.over or (not calm and loop.time() > ends))
        try:
            if calm or random.random() < 0.4:
                await run
            elif random.random() < 0.5:
                async with asyncio.timeout(random.choice([0.01, 0.5, 5])):
                    await run
            else:
                canceller = Canceller(random.randrange(1, 60), random.choice(MODES))
                await canceller.attempt(run)
        except (KafkaError, TimeoutError):  # among them, RecordFailedError
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise

    def _workers_of(self, consumer: Any) -> AsyncKeyedWorkers[Any, Any]:
        soak, random = self._soak, self._random
        order: Any = random.choice(["key", "key", "partition", "none"])
        workers: AsyncKeyedWorkers[Any, Any] = AsyncKeyedWorkers(
            consumer,
            self._handle,
            order=order,
            key=(lambda record: record.offset % _KEYS) if order == "key" else None,
            workers=random.choice([1, 4, 16]),
            max_in_flight=random.choice([5, 50, 1_000]),
            retry=Retry(random.choice([2, None]), backoff_ms=(50, 2_000)),
            exhausted=random.choice(["stop", self._give_up]),
            commit_interval_ms=random.choice([100, 1_000, 5_000]),
            drain_timeout_ms=random.choice([0, 4_000]),
            metadata_limit_bytes=LIMIT_BYTES,
        )
        driver = consumer._core.driver
        workers._runtime = Runtime(soak.simulation.clock, driver, random)
        if soak.reset == "latest":
            new_control = workers._new_control

            def noting(*arguments: Any) -> Any:
                control = new_control(*arguments)
                workload = control._workload
                admit = workload.admit

                def admitting(batch: Any, ends: Any, starts: Any) -> None:
                    soak.records.told(starts)
                    admit(batch, ends, starts)

                workload.admit = admitting  # type: ignore[method-assign]
                return control

            workers._new_control = noting  # type: ignore[method-assign,assignment]
        return workers

    async def _handle(self, record: Any) -> None:
        await asyncio.sleep(self._random.random() * self._lasts_s)
        if self._soak.chaos and self._random.random() < self._soak.failing:
            raise ValueError("the handler fails on purpose")
        if not self.killed:
            self._soak.records.done.add(record.value)

    async def _give_up(self, record: Any, _: Exception, __: int) -> None:
        await asyncio.sleep(0.01)
        if not self.killed:
            self._soak.records.done.add(record.value)


class Soak:
    """One run.

    Attributes:
        chaos: Whether there still are faults.
        over: Whether the programs are to end.
    """

    def __init__(
        self, simulation: Simulation, scenario: Scenario, partitions: list[TopicPartition]
    ) -> None:
        self.simulation, self._scenario = simulation, scenario
        self.random = Random(f"{simulation.seed}/soak")
        self.records = Records(simulation, partitions)
        self.faults = Faults(simulation, self.records, self.random)
        self.reset = self.random.choice(["earliest", "latest"])
        self._protocol = self.random.choice(["classic", "consumer"])
        self.failing = self.random.choice([0.0, 0.1, 0.4])
        self.chaos, self.over = True, False

    def options(self) -> dict[str, Any]:
        """Return the options of a consumer."""
        return {
            **self._scenario.options,
            "auto_offset_reset": self.reset,
            "group_protocol": self._protocol,
            "enable_auto_commit": False,
            "max_poll_records": self.random.choice([2, 500]),
        }

    async def run(self, faults_ms: int, settle_ms: int) -> int:
        """Let members work under faults, and then without; return how long they needed then."""
        simulation, loop = self.simulation, asyncio.get_running_loop()
        for tp in self.records.partitions:
            self.records.produce(tp, self.random.randrange(20))
        members = [asyncio.create_task(Member(self, number).live()) for number in range(MEMBERS)]
        until = loop.time() + faults_ms / 1_000
        while loop.time() < until:
            await asyncio.sleep(self.random.choice([0.1, 1, 5]))
            if self.random.random() < 0.4:
                self.faults.cause_one()
            else:
                self.records.produce(
                    self.random.choice(self.records.partitions), self.random.randrange(1, 20)
                )
        simulation.trace.note("the faults stop")
        self.faults.heal()
        self.chaos = False
        began_ms = simulation.clock.now_ms()
        await self._settle(members, settle_ms)
        for tp in self.records.partitions:
            self.records.produce(tp, LAST)
        await self._settle(members, settle_ms)
        self.over = True
        await asyncio.gather(*members)
        self.records.check_commits()
        return simulation.clock.now_ms() - began_ms

    async def _settle(self, members: Iterable[asyncio.Task[None]], within_ms: int) -> None:
        """Wait until all records were handled or told."""
        until_ms = self.simulation.clock.now_ms() + within_ms
        await asyncio.sleep(20)  # "latest" begins somewhere first
        while missing := self.records.missing():
            for member in members:
                if member.done():
                    member.result()
            if self.simulation.clock.now_ms() > until_ms:
                raise Violation(f"neither handled nor told ({self.reset}): {missing[:20]}")
            await asyncio.sleep(0.5)
        self.records.check_commits()


def run_workers_soak(
    simulation: Simulation,
    scenario: Scenario,
    partitions: list[TopicPartition],
    faults_ms: int,
    settle_ms: int,
    runner: asyncio.Runner | None,
) -> tuple[int, dict[str, int]]:
    """Run the scenario; returns how long it took to settle, and the faults by name.

    Raises:
        Violation: A record was neither handled nor told.
    """
    assert runner is not None
    soak = Soak(simulation, scenario, partitions)
    return runner.run(soak.run(faults_ms, settle_ms)), soak.faults.counts
