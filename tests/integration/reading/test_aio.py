"""AsyncKafkaConsumer on a real cluster: groups, timeouts, event loops, the end of a program."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tandem_kafka import AsyncKafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import partitions_of
from tests.machine import slowness

Consumer = AsyncKafkaConsumer[Any, Any]

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
#: Long enough for a slow machine; a passing test never waits that long.
TIMEOUT_S = 120.0


def produce(kafka: RealKafka, topic: str, count: int, partitions: int = 1) -> None:
    values = range(count)
    kafka.admin.produce(topic, [Record(b"%d" % n, None, n % partitions) for n in values])


@asynccontextmanager
async def started(kafka: RealKafka, *topics: str, **options: Any) -> AsyncIterator[Consumer]:
    """A consumer that starts at the earliest offset."""
    defaults = {"bootstrap_servers": kafka.bootstrap(), "auto_offset_reset": "earliest"}
    async with AsyncKafkaConsumer(*topics, **{**defaults, **options}) as consumer:
        yield consumer


def ends(main: Coroutine[Any, Any, object], **options: Any) -> None:
    """Run a coroutine within the time limit."""

    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await main

    with asyncio.Runner(**options) as runner:
        runner.run(limited())


class Reader:
    """Counts the values that members return."""

    def __init__(self) -> None:
        self.values: Counter[bytes] = Counter()
        self.owned: dict[str, set[TopicPartition]] = {}

    def note(self, batch: Any) -> None:
        for records in batch.values():
            self.values.update(record.value for record in records)

    def once(self, count: int) -> bool:
        """Return whether each of so many values was returned exactly once."""
        return self.values == Counter(b"%d" % n for n in range(count))


async def until(ready: Callable[[], object]) -> None:
    """Wait until `ready()`; `ends` limits the time."""
    while not ready():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0.01)


class Member:
    """A member that commits in its listener and reads until it is stopped."""

    def __init__(self, name: str, reader: Reader, options: dict[str, Any]) -> None:
        self.name = name
        self.options = options
        self.reader = reader
        self.consumer: Consumer
        reader.owned[name] = set()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self.consumer.commit()
        self.reader.owned[self.name] -= revoked

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.reader.owned[self.name] |= assigned

    async def run(self, kafka: RealKafka, topic: str, stop: asyncio.Event) -> None:
        async with started(kafka, client_id=self.name, **self.options) as self.consumer:
            await self.consumer.subscribe([topic], listener=self)
            while not stop.is_set():
                self.reader.note(await self.consumer.poll(100))
        assert not self.reader.owned[self.name]


@PROTOCOLS
@pytest.mark.partitions(4)
def test_two_members_in_one_loop_share_the_partitions(
    kafka: RealKafka, topic: str, protocol: str, network_threads: Callable[[], list[str]]
) -> None:
    group, every = f"group-of-{topic}", set(partitions_of(topic, 4))
    reader = Reader()

    options = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": False}
    first, second = (Member(name, reader, options) for name in ("first", "second"))

    async def main() -> None:
        stop, owned = asyncio.Event(), reader.owned
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(first.run(kafka, topic, stop))
            await until(lambda: owned["first"] == every)
            tasks.create_task(second.run(kafka, topic, stop))
            await until(lambda: owned["second"] and len(owned["first"] | owned["second"]) == 4)
            await asyncio.to_thread(produce, kafka, topic, 400, 4)
            await until(lambda: reader.values.total() >= 400)
            stop.set()
        assert reader.once(400)

    ends(main())
    assert kafka.admin.committed(group, topic) == 400
    assert not network_threads()


@pytest.mark.full("takes long on a real broker")
@PROTOCOLS
def test_timeouts_lose_and_repeat_nothing(kafka: RealKafka, topic: str, protocol: str) -> None:
    """A record arrives about as often as a timeout: both often happen at the same moment."""
    group, count = f"group-of-{topic}", 400
    reader, timeouts = Reader(), 0

    def write(stop: threading.Event) -> None:
        for number in range(count):
            kafka.admin.produce(topic, [Record(b"%d" % number)])
            if stop.wait(0.004):
                return

    async def main() -> None:
        nonlocal timeouts
        stop = threading.Event()
        options = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": False}
        async with started(kafka, topic, **options) as consumer:
            tp = TopicPartition(topic, 0)
            writing = asyncio.create_task(asyncio.to_thread(write, stop))
            try:
                while reader.values.total() < count:
                    try:
                        async with asyncio.timeout(0.05 if reader.values.total() % 2 else 0.004):
                            reader.note(await consumer.poll())
                    except TimeoutError:
                        timeouts += 1
                        continue
                    await consumer.commit()
                    assert await consumer.committed(tp) == reader.values.total()
            finally:
                stop.set()
                await writing
            assert await consumer.position(tp) == count

    ends(main())
    assert timeouts > 10
    assert reader.once(count)


async def by_iteration(consumer: Consumer) -> AsyncIterator[list[bytes]]:
    async for record in consumer:
        yield [record.value]


async def by_batches(consumer: Consumer) -> AsyncIterator[list[bytes]]:
    async for batch in consumer.batches(max_records=300, max_wait_ms=50):
        yield [record.value for records in batch.values() for record in records]


async def by_arrow(consumer: Consumer) -> AsyncIterator[list[bytes]]:
    async for table in consumer.arrow_batches(columns=["value"]):
        yield table["value"].to_pylist()


@pytest.mark.parametrize("reading", [by_iteration, by_batches, by_arrow])
def test_records_arrive_with_every_way_of_reading(
    kafka: RealKafka, topic: str, reading: Callable[[Consumer], AsyncIterator[list[bytes]]]
) -> None:
    produce(kafka, topic, 1_000)
    values: list[bytes] = []

    async def main() -> None:
        async with started(kafka, topic, group_id=f"group-of-{topic}") as consumer:
            async for found in reading(consumer):
                values.extend(found)
                if len(values) >= 1_000:
                    break
            assert asyncio.all_tasks() == {asyncio.current_task()}

    ends(main())
    assert values == [b"%d" % n for n in range(1_000)]
    assert kafka.admin.committed(f"group-of-{topic}", topic) == 1_000


@pytest.mark.full("takes long on a real broker")
def test_a_blocked_loop_keeps_the_membership(kafka: RealKafka, topic: str) -> None:
    """The simulation has the same test for KIP-848, whose session timeout is too long for this."""
    group = f"group-of-{topic}"
    options: dict[str, Any] = {
        "group_id": group,
        "group_protocol": "classic",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 1_000,
    }

    async def main() -> None:
        async with started(kafka, topic, **options) as consumer:
            while not consumer.assignment():
                await consumer.poll(100)
            before = consumer.group_metadata()
            time.sleep(8)  # noqa: ASYNC251 - blocks the loop
            await asyncio.to_thread(produce, kafka, topic, 1)
            assert (await consumer.poll()).count == 1
            assert consumer.group_metadata() == before
            assert kafka.admin.members(group) == 1

    ends(main())


def test_a_failing_task_of_a_group_closes_the_consumer(
    kafka: RealKafka, topic: str, network_threads: Callable[[], list[str]]
) -> None:
    produce(kafka, topic, 10)
    group = f"group-of-{topic}"

    async def read(ready: asyncio.Event) -> None:
        async with started(kafka, topic, group_id=group) as consumer:
            async for record in consumer:
                if record.offset == 9:
                    ready.set()

    async def fail(ready: asyncio.Event) -> None:
        await ready.wait()
        raise ValueError("the other task fails")

    async def main() -> None:
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read(ready))
            tasks.create_task(fail(ready))

    with pytest.raises(ExceptionGroup) as raised:
        ends(main())
    assert [str(error) for error in raised.value.exceptions] == ["the other task fails"]
    assert kafka.admin.members(group) == 0
    assert not network_threads()


# --- other event loops -------------------------------------------------------------------------


def test_uvloop(kafka: RealKafka, topic: str, network_threads: Callable[[], list[str]]) -> None:
    uvloop = pytest.importorskip("uvloop")
    produce(kafka, topic, 100)
    reader = Reader()

    async def main() -> None:
        async with started(kafka, topic, group_id=f"group-of-{topic}") as consumer:
            while reader.values.total() < 100:
                try:
                    async with asyncio.timeout(0.01):
                        reader.note(await consumer.poll(max_records=7))
                except TimeoutError:
                    continue
            threading.Timer(0.1, produce, (kafka, topic, 1)).start()
            assert (await anext(consumer)).value == b"0"

    ends(main(), loop_factory=uvloop.new_event_loop)
    assert reader.once(100)
    assert kafka.admin.committed(f"group-of-{topic}", topic) == 101
    assert not network_threads()


def cancelled_scope(kafka: RealKafka, topic: str, loop: str) -> float:
    """Cancel a scope of anyio with a consumer; returns the CPU time of its close.

    anyio cancels a task again at each of its waits; the close must finish nevertheless.
    """
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    produce(kafka, topic, 10)
    group, revoked = f"group-of-{topic}", 0
    used_s = 0.0

    class Listener:
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None: ...

        async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            nonlocal revoked
            await anyio.sleep(0.2)
            revoked += len(partitions)

    async def main() -> None:
        nonlocal used_s
        count = 0
        with anyio.CancelScope() as scope:
            async with started(kafka, group_id=group) as consumer:
                await consumer.subscribe([topic], listener=Listener())
                async for _ in consumer:
                    count += 1
                    if count == 10:
                        await consumer.commit()
                        used_s = time.process_time()
                        scope.cancel()
        used_s = time.process_time() - used_s
        assert scope.cancelled_caught
        assert count == 10

    anyio.run(main, backend_options={"use_uvloop": loop == "uvloop"})
    assert revoked == 1
    assert kafka.admin.members(group) == 0
    assert kafka.admin.committed(group, topic) == 10
    return used_s


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_cancelled_scope_of_anyio_closes_the_consumer(
    kafka: RealKafka, topic: str, loop: str, network_threads: Callable[[], list[str]]
) -> None:
    cancelled_scope(kafka, topic, loop)
    assert not network_threads()


@pytest.mark.full("it measures CPU time")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_close_of_a_cancelled_scope_does_not_spin(
    kafka: RealKafka, topic: str, loop: str
) -> None:
    assert cancelled_scope(kafka, topic, loop) < 0.2 * slowness()


def test_anyio_timeouts_lose_nothing(kafka: RealKafka, topic: str) -> None:
    produce(kafka, topic, 200)
    reader = Reader()

    async def main() -> None:
        async with started(kafka, topic) as consumer:
            while reader.values.total() < 200:
                with anyio.move_on_after(0.002):
                    reader.note(await consumer.poll(max_records=3))

    anyio.run(main)
    assert reader.once(200)


# --- the end of a program ----------------------------------------------------------------------

PROGRAM = """
import asyncio, signal, sys
from tandem_kafka import AsyncKafkaConsumer

async def main():
    bootstrap, topic, how = sys.argv[1:]
    options = {"group_id": "group-of-" + topic, "auto_offset_reset": "earliest"}
    async with AsyncKafkaConsumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        if how == "SIGTERM":
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        async for record in consumer:
            if record.offset == 9:
                await consumer.commit()
                print("ready", flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
except asyncio.CancelledError:
    print("cancelled")
"""


@pytest.mark.parametrize(("name", "printed"), [("SIGINT", "interrupted"), ("SIGTERM", "cancelled")])
def test_a_signal_ends_a_program_cleanly(
    kafka: RealKafka, topic: str, name: str, printed: str
) -> None:
    produce(kafka, topic, 10)
    program = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, kafka.bootstrap(), topic, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.Signals[name])
        output, errors = program.communicate(timeout=TIMEOUT_S)
    finally:
        program.kill()
        program.wait()
    assert (output, errors, program.returncode) == (f"{printed}\n", "", 0)
    assert kafka.admin.members(f"group-of-{topic}") == 0
    assert kafka.admin.committed(f"group-of-{topic}", topic) == 10
