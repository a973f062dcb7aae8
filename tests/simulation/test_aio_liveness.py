"""The event loop, the network thread and the membership; listeners; batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tandem_kafka import OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError, RebalanceCallbackError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.async_groups import AsyncGroup, options_for
from tests.simulation.readers import Listener
from tests.simulation.test_aio_methods import Member

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


# --- a blocked event loop ----------------------------------------------------------------------


@PROTOCOLS
def test_a_blocked_event_loop_does_not_cost_the_membership(protocol: str) -> None:
    async def run(simulation: Simulation) -> None:
        member = Member(simulation, protocol)
        await member.start()
        before = member.consumer.group_metadata()
        calls = list(member.listener.calls)
        simulation.sleep(60_000)  # ten times the session timeout, and no iteration of the loop
        for tp in member.group.partitions:
            produce(simulation, tp, 1)
        await member.read_all()
        assert member.consumer.group_metadata() == before
        assert member.listener.calls == calls
        await member.close()

    with Simulation(protocol) as simulation:
        simulation.run(run(simulation))


async def blocked_loop(simulation: Simulation, protocol: str) -> list[str]:
    """Return the calls of the listener of an asyncio consumer."""
    group = AsyncGroup(simulation, protocol)
    listener = Listener()
    async with group.consumer(max_poll_interval_ms=8_000) as consumer:
        await consumer.subscribe(["orders"], listener=listener)
        while not group.all_read():
            for records in (await consumer.poll(200)).values():
                group.note(records)
        await consumer.commit()
        simulation.sleep(20_000)
        for _ in range(50):
            assert not await consumer.poll(200)
    return [what for what, _ in listener.calls]


def blocked_thread(simulation: Simulation, protocol: str) -> list[str]:
    """Return the calls of the listener of a consumer for threads."""
    group = AsyncGroup(simulation, protocol)
    listener = Listener()
    consumer = simulation.consumer(**options_for(protocol, max_poll_interval_ms=8_000))
    consumer.subscribe(["orders"], listener=listener)
    while not group.all_read():
        for records in consumer.poll(200).values():
            group.note(records)
    consumer.commit()
    simulation.sleep(20_000)
    for _ in range(50):
        assert not consumer.poll(200)
    consumer.close()
    return [what for what, _ in listener.calls]


@PROTOCOLS
def test_a_loop_blocked_for_too_long_loses_the_membership_as_a_thread_does(protocol: str) -> None:
    with Simulation(protocol) as simulation:
        calls = simulation.run(blocked_loop(simulation, protocol))
    with Simulation(protocol) as simulation:
        assert blocked_thread(simulation, protocol) == calls
    assert calls == ["assigned", "lost", "assigned", "revoked"]


# --- listeners ---------------------------------------------------------------------------------


@PROTOCOLS
def test_plain_functions_are_listeners_too(protocol: str) -> None:
    async def run(simulation: Simulation) -> None:
        group = AsyncGroup(simulation, protocol)
        listener = Listener()
        async with group.consumer() as consumer:
            await consumer.subscribe(["orders"], listener=listener)
            while not consumer.assignment():
                await consumer.poll(200)
            every = frozenset(group.partitions)
            assert listener.calls[-1] == ("assigned", every)
        assert listener.calls[-1] == ("revoked", every)

    with Simulation(protocol) as simulation:
        simulation.run(run(simulation))


@pytest.mark.parametrize("error", [ValueError("bad"), StopAsyncIteration(), StopIteration()])
@pytest.mark.parametrize("reading", ["poll", "iteration", "batches"])
def test_an_error_of_a_listener_is_raised_by_the_reader(error: Exception, reading: str) -> None:
    class Failing:
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None: ...

        def on_partitions_assigned(self, _: set[TopicPartition]) -> None:
            raise error

    async def run(simulation: Simulation) -> None:
        group = AsyncGroup(simulation, "consumer")
        async with group.consumer() as consumer:
            await consumer.subscribe(["orders"], listener=Failing())
            call: Any = {
                "poll": consumer.poll,
                "iteration": consumer.__anext__,
                "batches": consumer.batches().__anext__,
            }[reading]
            with pytest.raises(RebalanceCallbackError) as raised:
                await call()
            cause = raised.value.__cause__
            # Python replaces a StopIteration that leaves a coroutine.
            assert cause is error or (cause is not None and cause.__cause__ is error)

    with Simulation() as simulation:
        simulation.run(run(simulation))


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
def test_a_deserializer_that_raises_such_an_error_ends_no_iteration(
    error: type[Exception],
) -> None:
    """The record is reported, again and again; iteration neither ends nor spins."""

    def fails(data: bytes) -> bytes:
        raise error(data)

    async def run(simulation: Simulation) -> None:
        (tp,) = create_topic(simulation, "orders", 1)
        produce(simulation, tp, 1)
        consumer = simulation.async_consumer(auto_offset_reset="earliest", value_deserializer=fails)
        async with consumer:
            await consumer.assign([tp])
            for call in (consumer.__anext__, consumer.poll, consumer.batches().__anext__) * 2:
                with pytest.raises(Exception, match="orders-0") as raised:
                    async with asyncio.timeout(5):
                        await call()  # type: ignore[operator]
                assert type(raised.value).__name__ == "RecordDeserializationError"
            assert await consumer.position(tp) == 0

    with Simulation() as simulation:
        simulation.run(run(simulation))


def test_a_listener_may_use_every_method_and_close() -> None:
    async def run(simulation: Simulation) -> None:
        group = AsyncGroup(simulation, "consumer")
        consumer = group.consumer()
        polled: list[int] = []

        class Uses:
            async def on_partitions_revoked(self, _: set[TopicPartition]) -> None:
                await consumer.commit()

            async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
                tp = min(assigned)
                await consumer.seek_to_beginning(tp)
                assert await consumer.position(tp) == 0
                consumer.pause(tp)
                polled.append((await consumer.poll(0)).count)
                consumer.resume(tp)
                await consumer.close()

        await consumer.start()
        await consumer.subscribe(["orders"], listener=Uses())
        assert not await consumer.poll()
        assert polled
        assert consumer._core.driver.ended

    with Simulation() as simulation:
        simulation.run(run(simulation))


# --- batches -----------------------------------------------------------------------------------


def test_batches_wait_for_records_but_not_too_long() -> None:
    async def run(simulation: Simulation) -> None:
        (tp,) = create_topic(simulation, "orders", 1)
        options = {"auto_offset_reset": "earliest", "metrics_enabled": True}
        async with simulation.async_consumer(**options) as consumer:
            await consumer.assign([tp])
            for number in range(20):
                simulation.after(5_000 + 100 * number, lambda: produce(simulation, tp, 1))
            began_ms = simulation.clock.now_ms()
            sizes, times = [], []
            async for batch in consumer.batches(max_records=8, max_wait_ms=1_000):
                sizes.append(batch.count)
                times.append(simulation.clock.now_ms() - began_ms)
                if sum(sizes) == 20:
                    break
            assert sizes[:2] == [8, 8]
            assert 5_600 < times[0] < 5_900, "a full batch is returned at once"
            assert 6_900 < times[-1] < 8_000, "the last batch waits for max_wait_ms"
            found = consumer.metrics()["consumer-fetch-manager-metrics"]
            assert found["records-consumed-total"] == 20

    with Simulation() as simulation:
        simulation.run(run(simulation))


def test_a_batch_of_waiting_records_is_returned_at_once() -> None:
    async def run(simulation: Simulation) -> None:
        (tp,) = create_topic(simulation, "orders", 1)
        produce(simulation, tp, 100)
        async with simulation.async_consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([tp])
            began_ms = 0
            async for batch in consumer.batches(max_records=10, max_wait_ms=60_000):
                now_ms = simulation.clock.now_ms()
                assert batch.count == 10
                assert not began_ms or now_ms - began_ms < 20
                began_ms = now_ms
                if batch[tp][-1].offset == 99:
                    break

    with Simulation() as simulation:
        simulation.run(run(simulation))


@pytest.mark.parametrize("max_wait_ms", [0, 60_000])
def test_a_visitor_does_not_wait_for_a_batch(max_wait_ms: int) -> None:
    async def run(simulation: Simulation) -> None:
        first, second = create_topic(simulation, "orders", 2)
        produce(simulation, first, 1)
        async with simulation.async_consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([first])
            batches = consumer.batches(max_records=10, max_wait_ms=max_wait_ms)
            reading = asyncio.create_task(anext(batches))  # type: ignore[arg-type]
            await asyncio.sleep(3)
            loop = asyncio.get_running_loop()
            began = loop.time()
            await consumer.assign([second])
            assert loop.time() - began < 0.1
            if not max_wait_ms:
                assert (await reading).count == 1
                return
            # The record of the partition that is no longer assigned is not returned.
            produce(simulation, second, 10)
            assert list(await reading) == [second]

    with Simulation() as simulation:
        simulation.run(run(simulation))


# --- tasks that never wait ---------------------------------------------------------------------


def test_a_poll_loop_that_always_finds_records_lets_other_tasks_run() -> None:
    async def run(simulation: Simulation) -> None:
        (tp,) = create_topic(simulation, "orders", 1)
        produce(simulation, tp, 200)
        async with simulation.async_consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([tp])
            await consumer.poll(max_records=1)
            ran = 0

            async def other() -> None:
                nonlocal ran
                while True:
                    ran += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            for _ in range(100):
                assert (await consumer.poll(max_records=1)).count == 1
            assert ran >= 100
            task.cancel()

    with Simulation() as simulation:
        simulation.run(run(simulation))


def test_a_wait_for_an_unreachable_coordinator_ends_at_its_deadline() -> None:
    async def run(simulation: Simulation) -> None:
        member = Member(simulation, "consumer")
        await member.start()
        await member.consumer.subscribe([member.topic])  # without a listener, which would wait
        simulation.cluster.stop(simulation.cluster.coordinator_of("readers"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(KafkaTimeoutError):
            await member.consumer.commit(
                {member.group.partitions[0]: OffsetAndMetadata(1, "", -1)}, timeout_ms=700
            )
        assert 0.7 <= loop.time() - began < 0.75
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await member.consumer.committed(member.group.partitions[0])
        assert loop.time() - began < 1.1
        await member.consumer.close(timeout_ms=500)

    with Simulation() as simulation:
        simulation.run(run(simulation))
