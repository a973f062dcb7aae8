"""Several tasks share a consumer; some are cancelled meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer, TopicPartition
from tandem_kafka.errors import ConcurrentModificationError, IllegalStateError
from tandem_kafka_testing import Simulation
from tests.scenarios.cancelling import MODES, Canceller
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.test_aio_methods import Member, each_suspension

Consumer = AsyncKafkaConsumer[Any, Any]


class SlowListener:
    """Its revocation takes a second."""

    def __init__(self) -> None:
        self.revoked = 0

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None: ...

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await asyncio.sleep(1)
        self.revoked += len(revoked)


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Wait for a task; return whether it was cancelled."""
    await asyncio.wait([task])
    return task.cancelled()


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_subscribe_keeps_topics_and_listener_together(mode: str) -> None:
    async def run(simulation: Simulation, canceller: Canceller) -> None:
        create_topic(simulation, "others", 1)
        member = Member(simulation, "classic")
        await member.start()
        polling = asyncio.create_task(member.consumer.poll())
        await asyncio.sleep(0.1)  # subscribe() must wait until this poll() gives way
        later = SlowListener()
        with contextlib.suppress(asyncio.CancelledError):
            await canceller.attempt(member.consumer.subscribe(["others"], listener=later))
        listener = member.consumer._parts.listener.listener
        if member.consumer.subscription() == {"others"}:
            assert listener is later
        else:
            assert listener is member.listener
        polling.cancel()
        assert await cancelled(polling)
        await member.consumer.close()

    each_suspension(mode, run, least=1)


@pytest.mark.parametrize("call", ["subscribe", "assign"])
def test_a_task_that_polls_does_not_wait_for_a_cancelled_call(call: str) -> None:
    """A call that was cancelled while it waited for the reader suspends it no more."""

    async def run(simulation: Simulation) -> None:
        (tp,) = create_topic(simulation, "orders", 1)
        async with simulation.async_consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([tp])
            polling = asyncio.create_task(consumer.poll(60_000))
            await asyncio.sleep(5)
            change = consumer.assign([tp]) if call == "assign" else consumer.subscribe(["orders"])
            other = asyncio.create_task(change)
            await asyncio.sleep(0)  # it waits until poll() gives way
            other.cancel()
            assert await cancelled(other)
            await asyncio.sleep(1)
            began_s = asyncio.get_running_loop().time()
            for _ in range(5):
                produce(simulation, tp, 1)
                assert (await polling).count == 1
                polling = asyncio.create_task(consumer.poll(60_000))
                await asyncio.sleep(0.1)
            assert asyncio.get_running_loop().time() - began_s < 2
            polling.cancel()
            assert await cancelled(polling)

    with Simulation("cancelled suspension") as simulation:
        simulation.run(run(simulation))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_cancelled_unsubscribe_is_completed_first(protocol: str, mode: str) -> None:
    async def run(simulation: Simulation, canceller: Canceller) -> None:
        member = Member(simulation, protocol)
        await member.start()
        for tp in member.group.partitions:
            produce(simulation, tp, 1)
        await member.read_all()
        try:
            await canceller.attempt(member.consumer.unsubscribe())
        except asyncio.CancelledError:
            assert canceller.struck
        else:
            assert not canceller.struck
        assert member.consumer.subscription() is None
        assert not member.consumer.assignment()
        assert not member.listener.owned
        await member.consumer.subscribe([member.topic], listener=member.listener)
        await member.read_all()
        await member.close()

    each_suspension(mode, run, least=3)


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_assign_is_made_or_not(mode: str) -> None:
    async def run(simulation: Simulation, canceller: Canceller) -> None:
        first, second = create_topic(simulation, "orders", 2)
        produce(simulation, first, 2)
        produce(simulation, second, 2)
        consumer = simulation.async_consumer(auto_offset_reset="earliest")
        async with consumer:
            await consumer.assign([first])
            polling = asyncio.create_task(_count(consumer))
            await asyncio.sleep(0.1)
            with contextlib.suppress(asyncio.CancelledError):
                await canceller.attempt(consumer.assign([second]))
            assert consumer.assignment() in ({first}, {second})
            await consumer.assign([second])
            assert await polling == 4

    each_suspension(mode, run, least=1)


async def _count(consumer: Consumer) -> int:
    """Read four records."""
    count = 0
    while count < 4:
        count += sum(len(records) for records in (await consumer.poll()).values())
    return count


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_poll_cancelled_while_another_task_has_the_consumer_leaves_it_alone(times: int) -> None:
    async def run(simulation: Simulation) -> None:
        member = Member(simulation, "consumer")
        listener = SlowListener()
        await member.consumer.start()
        await member.consumer.subscribe([member.topic], listener=listener)
        member.group.members.append(member.consumer)
        await member.read_all()
        polling = asyncio.create_task(member.consumer.poll())
        await asyncio.sleep(0.1)
        leaving = asyncio.create_task(member.consumer.unsubscribe())
        await asyncio.sleep(0.1)  # unsubscribe() is in the listener, poll() has given way
        began = asyncio.get_running_loop().time()
        for _ in range(times):
            polling.cancel()
            await asyncio.sleep(0)
        assert await cancelled(polling)
        assert asyncio.get_running_loop().time() - began < 0.1, "the cancellation was delayed"
        # unsubscribe() still has the consumer to itself.
        assert not leaving.done()
        assert member.consumer._core._owner.acquire() is None
        await leaving
        assert listener.revoked == 4
        await member.consumer.subscribe([member.topic])
        await asyncio.wait_for(member.consumer.poll(100), 60)
        await member.consumer.close()

    with Simulation(times) as simulation:
        simulation.run(run(simulation))


def test_a_second_poll_is_rejected_or_served_but_never_stops_the_loop() -> None:
    """Three tasks: one gives way to the second one; the third one polls at once."""
    for seed in range(30):
        with Simulation(seed) as simulation:
            simulation.run(_three_tasks(simulation, pause_s=seed % 3 / 1_000))


async def _three_tasks(simulation: Simulation, pause_s: float) -> None:
    first, second = create_topic(simulation, "orders", 2)
    async with simulation.async_consumer(auto_offset_reset="earliest") as consumer:
        await consumer.assign([first])
        polling = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0.1)

        async def assign_and_poll() -> None:
            await consumer.assign([second])
            await consumer.poll(300)

        other = asyncio.create_task(assign_and_poll())
        await asyncio.sleep(pause_s)
        produce(simulation, second, 1)
        done, _ = await asyncio.wait([polling, other], timeout=10)
        found = [task.exception() for task in done]
        assert any(error is None for error in found), found
        for error in found:
            assert error is None or isinstance(error, ConcurrentModificationError)
        polling.cancel()
        await asyncio.wait([polling])


def test_a_timeout_inside_a_listener_of_close_does_not_cancel_the_task() -> None:
    async def run(simulation: Simulation) -> None:
        member = Member(simulation, "classic")
        late: list[type[BaseException]] = []

        class Listener:
            async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None: ...

            async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
                try:
                    async with asyncio.timeout(0.001):
                        await member.consumer.end_offsets(revoked)
                except TimeoutError as error:
                    late.append(type(error))

        await member.consumer.start()
        await member.consumer.subscribe([member.topic], listener=Listener())
        member.group.members.append(member.consumer)
        await member.read_all()
        await member.consumer.close()
        assert late == [TimeoutError]

    with Simulation() as simulation:
        simulation.run(run(simulation))


def test_a_task_that_its_own_callback_cancels_loses_no_record() -> None:
    async def run(simulation: Simulation) -> None:
        (tp,) = create_topic(simulation, "orders", 1)
        produce(simulation, tp, 5)
        polling: list[asyncio.Task[Any]] = []

        class Stops:
            """An interceptor that stops the task at the first record."""

            def configure(self, configs: object) -> None: ...

            def on_consume(self, records: Any) -> Any:
                if polling:
                    polling.pop().cancel()
                return records

            def on_commit(self, offsets: object) -> None: ...

            def close(self) -> None: ...

        consumer = simulation.async_consumer(
            group_id="readers", auto_offset_reset="earliest", interceptor_classes=[Stops()]
        )
        async with consumer:
            await consumer.assign([tp])
            task = asyncio.create_task(consumer.poll())
            polling.append(task)
            assert await cancelled(task)
            assert await consumer.position(tp) == 0
            task = asyncio.create_task(anext(consumer))  # type: ignore[arg-type]
            polling.append(task)
            assert await cancelled(task)
            assert await consumer.position(tp) == 0
            assert [record.offset for record in (await consumer.poll())[tp]] == [0, 1, 2, 3, 4]
            await consumer.commit()
            assert await consumer.committed(tp) == 5

    with Simulation() as simulation:
        simulation.run(run(simulation))


def test_a_consumer_closed_by_another_task_ends_iteration_and_poll() -> None:
    async def run(simulation: Simulation, read: str) -> None:
        member = Member(simulation, "consumer")
        await member.start()
        reading = asyncio.create_task(_read(member.consumer, read))
        await asyncio.sleep(0.1)
        await member.close()
        assert await asyncio.wait_for(reading, 1) == []
        with pytest.raises(IllegalStateError, match="already been closed"):
            await member.consumer.poll()

    for read in ("poll", "iteration", "batches", "arrow"):
        with Simulation(read) as simulation:
            simulation.run(run(simulation, read))


async def _read(consumer: Consumer, read: str) -> list[Any]:
    if read == "poll":
        return list(await consumer.poll())
    iterators = {
        "iteration": lambda: aiter(consumer),
        "batches": consumer.batches,
        "arrow": consumer.arrow_batches,
    }
    return [found async for found in iterators[read]()]
