"""`AsyncShareConsumer` on a simulated cluster, in an event loop of simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tandem_kafka import AsyncShareConsumer
from tandem_kafka_testing import Simulation
from tests.simulation.sharing import sharing, started

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("reading", ["poll", "poll_arrow", "iteration"])
def test_a_loop_that_always_finds_records_lets_other_tasks_run(reading: str) -> None:
    """No other task ran, no timeout came and Ctrl-C was not heard, until no record was at hand."""

    async def use(simulation: Simulation) -> None:
        read = 0

        async def reads(consumer: AsyncShareConsumer[Any, Any]) -> None:
            nonlocal read
            while True:
                if reading == "iteration":
                    await anext(consumer)
                    simulation.sleep(10)  # as a slow handler does
                elif reading == "poll":
                    assert await consumer.poll(1_000, max_records=1)
                else:
                    assert (await consumer.poll_arrow(1_000, max_records=1)).num_rows
                read += 1

        consumer = await started(simulation)
        try:
            while consumer._parts.records.waiting() < 25:
                assert await consumer.poll(10_000, max_records=1)
            task = asyncio.create_task(reads(consumer))
            for _ in range(20):
                await asyncio.sleep(0)
            assert 5 < read < 25
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert read < 25
        finally:
            await consumer.close()

    with sharing("at hand", brokers=1, count=300) as (simulation, _):
        simulation.run(use(simulation))
