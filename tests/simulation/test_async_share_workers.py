"""`AsyncShareWorkers` on a simulated cluster, in an event loop of simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tandem_kafka.aio import AsyncShareConsumer
from tandem_kafka.aio.tasks import Tasks
from tandem_kafka.share.methods import ShareMethods
from tandem_kafka.testing import Simulation
from tandem_kafka.workers import AsyncShareWorkers, Retry, share_attempts
from tests.simulation.test_share_groups import sharing, take


async def started(simulation: Simulation) -> AsyncShareConsumer[Any, Any]:
    """Return a real share consumer of the running loop on the simulated network."""
    consumer: AsyncShareConsumer[Any, Any] = AsyncShareConsumer(
        acknowledgement="explicit",
        group_id="g",
        bootstrap_servers=simulation.cluster.bootstrap(),
    )
    (config, how), (runtime, transport) = consumer._options, simulation._environment()
    callers = Tasks(runtime.clock, runtime.driver, asyncio.get_running_loop())
    consumer._started = ShareMethods(config, runtime, callers, how, transport)
    await consumer.subscribe(["orders"])
    return consumer


def test_no_record_is_used_up_while_many_wait_for_another_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in ShareWorkers."""
    monkeypatch.setattr(share_attempts, "MOST_WAITING", 4)
    calls: list[tuple[int, int]] = []

    async def handle(record: Any) -> None:
        await asyncio.sleep(0)
        calls.append((record.offset, record.delivery_count))
        raise ValueError("the database is down")

    async def use(simulation: Simulation) -> None:
        consumer = await started(simulation)
        try:
            retry = Retry(2, (600_000, 600_000))
            workers = AsyncShareWorkers(consumer, handle, workers=2, retry=retry)
            end_ms = simulation.clock.now_ms() + 5_000
            await workers.run(lambda: simulation.clock.now_ms() > end_ms)
        finally:
            await consumer.close()

    with sharing("used up", brokers=1, count=12) as (simulation, start):
        simulation.run(use(simulation))
        assert len(calls) in (4, 5)
        assert {count for _, count in calls} == {1}
        assert len(take(start(), 12)) == 12
