"""The usual step of tasks: it reads each record once, and gives way to cancellations."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from gc import collect, get_objects
from operator import sub
from random import Random
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer, TopicPartition
from tandem_kafka.consumer.aio.alarms import Alarm
from tandem_kafka.consumer.aio.tasks import TaskLock, Tasks
from tandem_kafka.consumer.reading.publication import Handed, Publication
from tandem_kafka.errors import (
    ConcurrentModificationError,
    ForkedConsumerError,
    WakeupError,
)
from tandem_kafka.runtime.native import native
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.state.partition import Position
from tandem_kafka_testing import Simulation
from tests.scenarios.cancelling import Canceller
from tests.scenarios.numbered_records import create_topic
from tests.simulation.test_usual_reading import PARTITIONS, drawn_options
from tests.tier import seeds

pytestmark = pytest.mark.skipif(native is None, reason="there is one implementation only")

Consumer = AsyncKafkaConsumer[Any, Any]
Read = Callable[[Consumer], Coroutine[Any, Any, list[int]]]

#: The ways of reading that have a usual step. Each returns the offsets of what it has read.
READS: dict[str, Read] = {}


def reads(read: Read) -> Read:
    READS[read.__name__] = read
    return read


@reads
async def poll(consumer: Consumer) -> list[int]:
    return [record.offset for batch in (await consumer.poll(5_000)).values() for record in batch]


@reads
async def iterate(consumer: Consumer) -> list[int]:
    return [(await anext(consumer)).offset]  # type: ignore[arg-type]


class Reader:
    """A consumer for asyncio, and the positions that its records make known."""

    def __init__(self, simulation: Simulation, options: dict[str, Any]) -> None:
        self.simulation = simulation
        create_topic(simulation, "orders", len(PARTITIONS))
        self.consumer: Consumer = simulation.async_consumer(
            group_id="readers", auto_offset_reset="earliest", **options
        )
        self.produced = Counter[TopicPartition]()
        self.position = dict.fromkeys(PARTITIONS, 0)

    async def produce(self, tp: TopicPartition, values: list[bytes], wait_ms: int) -> None:
        self.simulation.cluster.produce(tp, *values)
        self.produced[tp] += len(values)
        await asyncio.sleep(wait_ms / 1000)

    async def poll(self, *arguments: Any) -> int:
        """Poll; return the number of records."""
        made = await self.consumer.poll(*arguments)
        for tp, records in made.items():
            for record in records:
                self._follow(tp, record.offset)
            assert made.next_offsets[tp].offset == self.position[tp]
        return made.count

    async def iterate(self, count: int) -> int:
        """Iterate; return the number of records."""
        for index in range(count):
            record = await anext(self.consumer, None)  # type: ignore[arg-type]
            if record is None:
                return index
            self._follow(TopicPartition(record.topic, record.partition), record.offset)
        return count

    def _follow(self, tp: TopicPartition, offset: int) -> None:
        assert offset == self.position[tp]
        self.position[tp] += 1

    async def step(self, random: Random) -> None:
        """Do what is drawn."""
        tp, draw = random.choice(PARTITIONS), random.randrange(32)
        if draw < 12:
            values = [b"x"] * random.choice([1, 1, 1, 4])
            await self.produce(tp, values, random.choice([0, 600, 600]))
        elif draw < 20:
            limits = random.choice([0, 1, 5.5, 100, 700]), random.choice([None, None, 1, 2])
            await self.poll(*limits)
        elif draw < 26:
            await self.iterate(random.choice([1, 2, 6]))
        elif draw < 28:
            self.position[tp] = random.randint(0, self.produced[tp])
            self.consumer.seek(tp, self.position[tp])
        elif draw < 29:
            self.consumer.pause(tp)
            self.consumer.resume(*PARTITIONS)
        elif draw < 31:
            reading = asyncio.create_task(self.poll(700))
            await asyncio.sleep(random.choice([0, 0.1]))
            reading.cancel()
            await asyncio.wait([reading])
        else:
            await self.consumer.commit()

    async def check(self) -> None:
        """Check that nothing is left of a call."""
        core = self.consumer._core
        lock: Any = core._owner
        assert (core.reader, lock._holder, lock._entries) == (None, None, set())
        for tp in PARTITIONS:
            assert await self.consumer.position(tp) == self.position[tp]


@pytest.mark.parametrize("seed", seeds(60, 600))
def test_every_record_is_read_once_and_moves_the_position(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    options = {**drawn_options(random), "consumer_timeout_ms": 50}

    async def run(simulation: Simulation) -> None:
        reader = Reader(simulation, options)
        async with reader.consumer:
            await reader.consumer.assign(PARTITIONS)
            await reader.poll(1_000)
            for _ in range(random.randint(5, 60)):
                await reader.step(random)
                await reader.check()
            while await reader.poll(1_000):
                pass
            assert reader.position == {tp: reader.produced[tp] for tp in PARTITIONS}

    with Simulation(seed) as simulation:
        simulation.run(run(simulation))


def simulated(test: Callable[[Reader], Coroutine[Any, Any, None]], **more: Any) -> None:
    """Run a test with a consumer of which the next call is a usual one that finds nothing.

    It has read a record of each partition.
    """

    async def run(simulation: Simulation) -> None:
        options = {"enable_auto_commit": False, "consumer_timeout_ms": 5_000, **more}
        reader = Reader(simulation, options)
        async with reader.consumer:
            await reader.consumer.assign(PARTITIONS)
            for tp in PARTITIONS:
                await reader.produce(tp, [b"x"], 0)
            while await reader.poll(1_000):
                pass
            await test(reader)

    with Simulation() as simulation:
        simulation.run(run(simulation))


@pytest.mark.parametrize("at_hand", [True, False])
@pytest.mark.parametrize("read", READS.values())
def test_a_record_takes_one_suspension(read: Read, at_hand: bool) -> None:
    """It lets other tasks run, and is the wait if there is one."""

    async def test(reader: Reader) -> None:
        for offset in range(1, 4):
            produced = asyncio.create_task(reader.produce(PARTITIONS[0], [b"x"], 600))
            if at_hand:
                await produced
            canceller = Canceller(100, "early")
            assert await canceller.attempt(read(reader.consumer)) == [offset]
            assert canceller.suspensions == 1
            assert (reader.consumer._reading._poller.measured.idle_ms > 0) is not at_hand
            await produced

    simulated(test)


@pytest.mark.parametrize("wait_ms", [0, 600])
@pytest.mark.parametrize("read", READS.values())
def test_a_cancelled_task_receives_that_before_records(read: Read, wait_ms: int) -> None:
    async def test(reader: Reader) -> None:
        async def stopped() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await read(reader.consumer)

        await reader.produce(PARTITIONS[0], [b"x"], wait_ms)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(stopped())
        assert await read(reader.consumer) == [1]

    simulated(test)


@pytest.mark.parametrize("read", READS.values())
def test_what_arrives_before_the_wait_does_not_prevent_a_cancellation(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(reader: Reader) -> None:
        async def complete(tasks: Tasks, call: Any) -> None:
            monkeypatch.undo()
            await reader.produce(PARTITIONS[0], [b"x"], 600)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await completed(tasks, call)

        completed = Tasks.complete
        monkeypatch.setattr(Tasks, "complete", complete)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(read(reader.consumer))
        assert await read(reader.consumer) == [1]

    simulated(test)


@pytest.mark.parametrize("at_hand", [True, False])
@pytest.mark.parametrize("read", READS.values())
def test_a_task_that_a_signal_handler_cancels_loses_no_record(
    read: Read, at_hand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler may run whenever the usual step calls Python code, as that of a simulated clock."""

    async def test(reader: Reader) -> None:
        clock, handled = type(reader.simulation.clock), 0
        told = clock.now_ms
        for offset in range(1, 9):
            produced = asyncio.create_task(reader.produce(PARTITIONS[0], [b"x"], 600))
            if at_hand:
                await produced
            looks = 0
            task = asyncio.create_task(read(reader.consumer))

            def now_ms(self: Any, offset: int = offset, task: Any = task) -> int:
                nonlocal looks
                looks += asyncio.current_task() is task
                if looks == offset:
                    task.cancel()
                return told(self)

            with monkeypatch.context() as patch:
                patch.setattr(clock, "now_ms", now_ms)
                await asyncio.wait([task])
            await produced
            if task.cancelled():
                handled += 1
                assert await reader.consumer.position(PARTITIONS[0]) == offset
                assert await read(reader.consumer) == [offset]
            else:
                assert task.result() == [offset]
        assert handled

    simulated(test)


@pytest.mark.parametrize("at_hand", [True, False])
@pytest.mark.parametrize("read", READS.values())
def test_a_task_that_is_cancelled_as_it_leaves_loses_no_record(
    read: Read, at_hand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler may run behind the step that has read the record, too."""

    async def test(reader: Reader) -> None:
        def disarm(alarm: Alarm) -> None:
            if asyncio.current_task() is task:
                task.cancel()
            disarmed(alarm)

        produced = asyncio.create_task(reader.produce(PARTITIONS[0], [b"x"], 600))
        if at_hand:
            await produced
        task = asyncio.create_task(read(reader.consumer))
        kind = type(reader.consumer._tasks._alarm)
        disarmed = kind.disarm
        with monkeypatch.context() as patch:
            patch.setattr(kind, "disarm", disarm)
            await asyncio.wait([task])
        assert task.cancelled()
        await produced
        assert await reader.consumer.position(PARTITIONS[0]) == 1
        assert await read(reader.consumer) == [1]

    simulated(test)


@pytest.mark.parametrize("read", READS.values())
def test_a_second_task_cannot_read(read: Read) -> None:
    async def test(reader: Reader) -> None:
        first = asyncio.create_task(read(reader.consumer))
        await asyncio.sleep(0.1)
        for second in READS.values():
            with pytest.raises(ConcurrentModificationError):
                await second(reader.consumer)
        first.cancel()
        await asyncio.wait([first])
        assert reader.consumer._core.reader is None
        await reader.produce(PARTITIONS[0], [b"x"], 600)
        assert await read(reader.consumer) == [1]

    simulated(test)


@pytest.mark.parametrize("usual", [True, False])
@pytest.mark.parametrize("read", READS.values())
def test_a_task_that_an_interrupt_has_ended_holds_no_lock(
    read: Read, monkeypatch: pytest.MonkeyPatch, *, usual: bool
) -> None:
    """It came between the call that acquires the lock and the `try` that releases it."""

    async def test(reader: Reader) -> None:
        def interrupted(*_: Any) -> None:
            raise InterruptedError

        def acquires(lock: TaskLock) -> None:
            acquired(lock)
            raise InterruptedError

        acquired = TaskLock.acquire
        if not usual:
            reader.consumer._reading.usual = None
        with monkeypatch.context() as patch:
            patch.setattr(Tasks, "complete", interrupted)
            patch.setattr(TaskLock, "acquire", acquires)
            reading = asyncio.create_task(read(reader.consumer))
            await asyncio.wait([reading])
        assert isinstance(reading.exception(), InterruptedError)
        await reader.produce(PARTITIONS[0], [b"x"], 600)
        assert await read(reader.consumer) == [1]
        lock: Any = reader.consumer._core._owner
        assert (reader.consumer._core.reader, lock._holder) == (None, None)

    simulated(test)


@pytest.mark.parametrize("read", READS.values())
def test_wakeup_ends_the_wait(read: Read) -> None:
    async def test(reader: Reader) -> None:
        reading = asyncio.create_task(read(reader.consumer))
        await asyncio.sleep(0.1)
        reader.consumer.wakeup()
        with pytest.raises(WakeupError):
            await asyncio.wait_for(reading, 1)

    simulated(test)


@pytest.mark.parametrize("read", READS.values())
def test_a_fork_cannot_read(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(reader: Reader) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(PROCESS, "pid", PROCESS.pid + 1)
            with pytest.raises(ForkedConsumerError):
                await read(reader.consumer)

    simulated(test)


@pytest.mark.parametrize("usual", [True, False])
def test_a_call_that_gives_way_reads_in_its_own_way_afterwards(*, usual: bool) -> None:
    """Another task has read in another way meanwhile, and was cancelled."""

    async def test(reader: Reader) -> None:
        if not usual:
            reader.consumer._reading.usual = None
        polling = asyncio.create_task(reader.consumer.poll(5_000))
        await asyncio.sleep(0.1)
        assigning = asyncio.create_task(reader.consumer.assign(PARTITIONS))
        iterating = asyncio.create_task(iterate(reader.consumer))
        await asyncio.sleep(0.1)
        iterating.cancel()
        await asyncio.wait([iterating, assigning])
        await reader.produce(PARTITIONS[0], [b"x"], 600)
        [[record]] = (await polling).values()
        assert record.value == b"X"

    simulated(test, value_deserializer=bytes.upper)


def test_calls_of_different_limits_leave_the_usual_one() -> None:
    async def test(reader: Reader) -> None:
        collector = reader.consumer._reading._collector
        before = collector.max_bytes
        batches = reader.consumer.arrow_batches()
        tasks = [asyncio.create_task(anext(batches))]  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        tasks += [asyncio.create_task(reader.consumer.assign(PARTITIONS))]
        tasks += [asyncio.create_task(anext(batches))]  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
            await asyncio.sleep(0.1)
        assert all(task.done() for task in tasks)
        assert collector.max_bytes == before

    simulated(test)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_call_that_waits_wakes_what_waits_for_the_position(read: Read) -> None:
    """The network thread was woken when the records were read, before the position had moved."""

    async def test(reader: Reader) -> None:
        collector, engine = reader.consumer._reading._collector, reader.consumer._core.engine
        woken: list[bool] = []
        await reader.produce(PARTITIONS[0], [b"x"], 600)
        assert await read(reader.consumer) == [1]
        state = engine.subscription.get(PARTITIONS[0])
        engine.buffer.starved = state.wait_for_drain = True
        collector._wake_network = lambda: woken.append(True)
        waiting = asyncio.create_task(read(reader.consumer))
        await asyncio.sleep(0.1)
        assert woken
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])

    simulated(test)


def test_the_usual_calls_leave_nothing_in_memory() -> None:
    async def test(reader: Reader) -> None:
        kinds = Handed, Position, Publication, native.TaskCall  # type: ignore[union-attr]

        def counts() -> list[int]:
            collect()
            return [sum(type(each) is kind for each in get_objects()) for kind in kinds]

        before = counts()
        for _ in range(50):
            for read in READS.values():
                await reader.produce(PARTITIONS[0], [b"x"], 600)
                await read(reader.consumer)
        assert max(map(sub, counts(), before)) < 20

    simulated(test)


def abort(reader: Reader) -> None:
    """Append a transaction of which nothing but positions is read."""
    tp = PARTITIONS[0]
    with suppress(InterruptedError), reader.simulation.cluster.transaction() as transaction:
        transaction.produce(tp, b"aborted")
        raise InterruptedError
    reader.position[tp] += 2
    reader.produced[tp] += 2


@pytest.mark.parametrize("usual", [True, False])
def test_a_loop_commits_while_nothing_but_positions_moves(*, usual: bool) -> None:
    async def run(simulation: Simulation) -> None:
        options = {"isolation_level": "read_committed", "auto_commit_interval_ms": 1_000}
        reader = Reader(simulation, options)
        async with reader.consumer:
            await reader.consumer.subscribe(["orders"])
            for wait_ms in (0, 600):
                await reader.produce(PARTITIONS[0], [b"x"], wait_ms)
                assert await reader.poll(5_000) == 1
            if not usual:
                reader.consumer._reading.usual = None
            looping = asyncio.create_task(reader.iterate(1))
            await asyncio.sleep(0.1)
            for _ in range(5):
                await asyncio.sleep(1)
                before = reader.position[PARTITIONS[0]]
                abort(reader)
            assert simulation.cluster.committed("readers", PARTITIONS[0]) in {before - 2, before}
            looping.cancel()
            await asyncio.wait([looping])

    with Simulation() as simulation:
        simulation.run(run(simulation))


def test_records_behind_aborted_ones_move_no_position_before_they_are_returned() -> None:
    """One step collects twice: first what moves positions only, then records."""

    async def test(reader: Reader) -> None:
        measured = reader.consumer._reading._poller.measured
        noted, found = measured.note_records, []

        def interrupted(_: Any) -> None:
            measured.note_records = noted
            found.append(subscription.consumed_offsets()[PARTITIONS[0]].offset)
            raise InterruptedError

        subscription = reader.consumer._core.engine.subscription
        looping = asyncio.create_task(iterate(reader.consumer))
        await asyncio.sleep(0.1)
        abort(reader)
        measured.note_records = interrupted
        await reader.produce(PARTITIONS[0], [b"x"] * 2, 1_200)
        with pytest.raises(InterruptedError):
            await looping
        assert found == [3]
        assert await reader.consumer.position(PARTITIONS[0]) == 3
        assert await iterate(reader.consumer) == [3]

    simulated(test, isolation_level="read_committed")


@pytest.mark.parametrize("read", READS.values())
def test_a_task_that_a_deserializer_cancels_loses_no_record(read: Read) -> None:
    cancels = False

    def deserialize(value: bytes) -> bytes:
        nonlocal cancels
        task = asyncio.current_task()
        assert task is not None
        if cancels:
            cancels = False
            task.cancel()
        return value

    async def test(reader: Reader) -> None:
        nonlocal cancels
        for tp in PARTITIONS[:2]:
            await reader.produce(tp, [b"x"] * 3, 600)
        assert len(await read(reader.consumer)) in {1, 6}
        if read is poll:
            await reader.produce(PARTITIONS[0], [b"x"] * 3, 600)
        before = [await reader.consumer.position(tp) for tp in PARTITIONS]
        cancels = True
        task = asyncio.create_task(read(reader.consumer))
        await asyncio.wait([task])
        assert task.cancelled()
        assert [await reader.consumer.position(tp) for tp in PARTITIONS] == before
        assert (await read(reader.consumer))[0] in before

    simulated(test, value_deserializer=deserialize)
