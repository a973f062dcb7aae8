"""AsyncShareWorkers, on the simulated cluster and on a real one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tandem_kafka import AsyncShareConsumer
from tandem_kafka.errors import ArgumentTypeError, IllegalStateError, InvalidArgumentError
from tandem_kafka.workers import AsyncShareWorkers
from tests.integration.brokers import Cluster
from tests.integration.share.share_members import (
    Share,
    ends_when,
    places,
    produce,
    quiet,
    take,
)
from tests.simulation.sharing import in_work

pytestmark = pytest.mark.both_clusters(everyday="simulated")

Workers = AsyncShareWorkers[Any, Any]
Running = Callable[..., Awaitable[Workers]]


@pytest.fixture
def run(kafka: Cluster, group: str, topic: str) -> Callable[..., Workers]:
    """Runs a coroutine with a member of the group."""

    def run(main: Callable[[AsyncShareConsumer], Awaitable[Any]]) -> Any:
        async def begun() -> Any:
            async with AsyncShareConsumer(
                topic,
                bootstrap_servers=kafka.bootstrap(),
                group_id=group,
                acknowledgement="explicit",
            ) as consumer:
                return await main(consumer)

        return asyncio.run(begun())

    return run


def test_many_tasks_handle_each_record_once(
    kafka: Cluster, topic: str, run: Any, share: Share
) -> None:
    produce(kafka, topic, 500)
    seen: Counter[int] = Counter()
    together = most = 0

    async def handle(record: Any) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.01)
        together -= 1
        seen[record.offset] += 1

    async def main(consumer: AsyncShareConsumer) -> Workers:
        workers = AsyncShareWorkers(consumer, handle, workers=32)
        await workers.run(ends_when(lambda: len(seen) == 500))
        return workers

    assert run(main).done == 500
    assert seen == Counter(range(500))
    assert 1 < most <= 32
    assert quiet(share())


def test_a_cancelled_run_releases_what_was_not_done(
    kafka: Cluster, topic: str, run: Any, share: Share
) -> None:
    produce(kafka, topic, 2)
    ended: list[int] = []

    async def main(consumer: AsyncShareConsumer) -> None:
        begun = asyncio.Event()

        async def handle(record: Any) -> None:
            if record.offset == 0:
                return
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(record.offset)

        running = asyncio.create_task(AsyncShareWorkers(consumer, handle).run())
        await asyncio.wait_for(begun.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended == [1]

    run(main)
    assert places(take(share(), 1)) == [(1, 2)]


@pytest.mark.parametrize("steps", range(2, 6))
def test_a_run_is_cancelled_while_a_handler_ends(
    kafka: Cluster, topic: str, run: Any, steps: int
) -> None:
    """At one of these steps of the loop, wait_for() of Python 3.11 swallowed the cancellation."""
    produce(kafka, topic, 50)

    async def main(consumer: AsyncShareConsumer) -> None:
        begun, end = asyncio.Event(), asyncio.Event()

        async def handle(_: Any) -> None:
            begun.set()
            await end.wait()

        running = asyncio.create_task(AsyncShareWorkers(consumer, handle, workers=1).run())
        await asyncio.wait_for(begun.wait(), 30)
        await asyncio.sleep(0)  # the run waits for the handler
        end.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=60)
        assert running.cancelled()

    run(main)


def test_a_handler_that_does_not_return_in_time_is_cancelled(
    kafka: Cluster, topic: str, run: Any, share: Share
) -> None:
    produce(kafka, topic, 1)
    begun: list[int] = []

    async def handle(record: Any) -> None:
        begun.append(record.offset)
        await asyncio.sleep(3600)

    async def main(consumer: AsyncShareConsumer) -> None:
        await AsyncShareWorkers(consumer, handle, drain_timeout_ms=100).run(
            ends_when(lambda: bool(begun))
        )

    run(main)
    assert places(take(share(), 1)) == [(0, 2)]


def test_handlers_may_finish_after_an_error(
    kafka: Cluster, topic: str, run: Any, share: Share
) -> None:
    """They were cancelled, so a record that could not be deserialized undid up to 500 others."""
    produce(kafka, topic, 2)
    ended: list[int] = []

    async def main(consumer: AsyncShareConsumer) -> int:
        end = asyncio.Event()

        async def handle(record: Any) -> None:
            await end.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            ended.append(record.offset)

        workers = AsyncShareWorkers(consumer, handle)

        def failing() -> bool:
            if in_work(workers)[0] == 2:
                asyncio.get_running_loop().call_soon(end.set)
                raise ZeroDivisionError
            return False

        with pytest.raises(ZeroDivisionError):
            await workers.run(failing)
        return workers.done

    assert run(main) == 2
    assert sorted(ended) == [0, 1]
    assert quiet(share())


def test_arguments_are_checked(kafka: Cluster, topic: str, run: Any) -> None:
    produce(kafka, topic, 1)

    async def handle(_: Any) -> None: ...

    async def main(consumer: AsyncShareConsumer) -> None:
        with pytest.raises(InvalidArgumentError, match="workers must be"):
            AsyncShareWorkers(consumer, handle, workers=0)
        with pytest.raises(ArgumentTypeError, match="drain_timeout_ms must be"):
            AsyncShareWorkers(consumer, handle, drain_timeout_ms="1")  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="use ShareWorkers for ordinary functions"):
            await AsyncShareWorkers(consumer, print).run(ends_when(lambda: False))  # type: ignore[arg-type]

    run(main)
    with pytest.raises(InvalidArgumentError, match='create it with acknowledgement="explicit"'):
        AsyncShareWorkers(AsyncShareConsumer(topic, group_id="g"), handle)
    idle = AsyncShareConsumer(topic, group_id="g", acknowledgement="explicit")
    with pytest.raises(IllegalStateError, match="has not been started"):
        AsyncShareWorkers(idle, handle)
