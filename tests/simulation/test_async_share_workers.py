"""`AsyncShareWorkers` on a simulated cluster, in an event loop of simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tandem_kafka.workers import AsyncShareWorkers, Retry, share_attempts
from tandem_kafka.workers.run import CHECK_MS
from tandem_kafka.workers.share_attempts import ShareAttempts
from tandem_kafka_testing import Simulation
from tests.simulation.sharing import LOCK_MS, in_work, places, sharing, take
from tests.simulation.simulated_workers import async_share_workers
from tests.simulation.test_async_workers import OWN_CANCELLATIONS


@asynccontextmanager
async def running(
    workers: AsyncShareWorkers[Any, Any], until: Callable[[], bool]
) -> AsyncIterator[Any]:
    """Run the workers in a task until a condition holds; then, the block may cancel it."""
    task = asyncio.ensure_future(workers.run())
    while not until():  # noqa: ASYNC110 - most conditions are of the handlers' own
        await asyncio.sleep(0.01)
    yield task
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_retry_that_is_due_while_the_run_ends_lets_no_worker_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a slow handler was awaited, an idle worker looked for the record again and again."""
    looks = 0
    take_task = ShareAttempts.take

    def counted(attempts: ShareAttempts) -> Any:
        nonlocal looks
        looks += 1
        if looks > 1_000:
            raise SystemExit("spins")
        return take_task(attempts)

    monkeypatch.setattr(ShareAttempts, "take", counted)

    async def handle(record: Any) -> None:
        if record.offset:
            raise ValueError("to be tried again")
        await asyncio.sleep(5)

    async def use(simulation: Simulation) -> int:
        async with async_share_workers(simulation, handle, retry=Retry(3, (200, 200))) as workers:
            end_ms = simulation.clock.now_ms() + 300
            await workers.run(lambda: simulation.clock.now_ms() > end_ms)
            return workers.done

    with sharing("due at the end", brokers=1) as (simulation, _):
        assert simulation.run(use(simulation)) == 1


def test_a_handler_that_goes_on_although_it_is_cancelled_keeps_nothing_locked() -> None:
    """The locks of all records were renewed until it ended."""
    calls: list[int] = []

    async def use(simulation: Simulation, start: Any) -> None:
        end = asyncio.Event()

        async def handle(record: Any) -> None:
            calls.append(record.offset)
            if record.offset:
                raise ValueError("to be tried again")
            while not end.is_set():
                with suppress(asyncio.CancelledError):
                    await end.wait()

        retry = Retry(2, (600_000, 600_000))
        async with async_share_workers(simulation, handle, retry=retry) as workers:
            async with running(workers, lambda: len(calls) == 3) as task:
                task.cancel()
                await asyncio.sleep(2)
                assert not task.done()
                assert places(take(start(), 3)) == [(0, 2), (1, 2), (2, 2)]
                end.set()
            assert workers.done == 0

    with sharing("goes on", brokers=1) as (simulation, start):
        simulation.run(use(simulation, start))


def test_a_run_that_is_cancelled_twice_waits_for_its_handlers() -> None:
    """It returned while they cleaned up."""
    ended: list[int] = []

    async def use(simulation: Simulation, _: Any) -> None:
        async def handle(record: Any) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                try:
                    await asyncio.sleep(0.5)
                finally:
                    ended.append(record.offset)

        async with (
            async_share_workers(simulation, handle) as workers,
            running(workers, lambda: in_work(workers)[0] == 3) as task,
        ):
            task.cancel()
            await asyncio.sleep(0.1)
            assert not ended
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert sorted(ended) == [0, 1, 2]

    with sharing("twice", brokers=1) as (simulation, start):
        simulation.run(use(simulation, start))


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("reports", [False, True])
def test_a_handler_that_fails_because_it_is_cancelled_has_not_failed(
    is_cancelled: bool, reports: bool
) -> None:
    """Its clean-up raised an error, and its record was rejected."""
    handled: list[int] = []
    reported: list[int] = []

    async def handle(record: Any) -> None:
        handled.append(record.offset)
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            raise ConnectionError("the transaction cannot be rolled back") from None

    async def report(record: Any, *_: Any) -> None:
        reported.append(record.offset)

    async def use(simulation: Simulation) -> None:
        options: Any = {"otherwise": report if reports else "reject", "drain_timeout_ms": 100}
        async with async_share_workers(simulation, handle, **options) as workers:
            if is_cancelled:
                async with running(workers, lambda: len(handled) == 3) as task:
                    task.cancel()
            else:
                await workers.run(lambda: len(handled) == 3)
            assert workers.done == 0

    with sharing("clean-up", brokers=1) as (simulation, start):
        simulation.run(use(simulation))
        assert not reported
        assert places(take(start(), 3)) == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("fails", OWN_CANCELLATIONS)
def test_a_handler_that_cancels_its_own_task_has_failed(fails: Any) -> None:
    """It had no retry, no backoff and no dead letter, until the broker archived its record."""
    calls: list[int] = []
    letters: list[tuple[int, int]] = []

    async def use(simulation: Simulation) -> None:
        async def handle(record: Any) -> None:
            if record.offset == 1:
                calls.append(record.delivery_count)
                await fails()

        async def report(record: Any, _: Exception, attempts: int) -> None:
            await asyncio.sleep(0.1)
            letters.append((record.offset, attempts))

        retry = Retry(3, (1_500, 1_500))
        async with async_share_workers(
            simulation, handle, retry=retry, otherwise=report
        ) as workers:
            end_ms = simulation.clock.now_ms() + 60_000
            await workers.run(lambda: workers.done == 3 or simulation.clock.now_ms() > end_ms)
            assert workers.done == 3

    with sharing("own cancellation", brokers=1) as (simulation, _):
        simulation.run(use(simulation))
        assert calls == [1, 1, 1]
        assert letters == [(1, 3)]


def test_a_loop_that_ends_is_no_failed_attempt() -> None:
    """It cancels all tasks at once, in any order, and a failed record would be rejected."""
    begun: list[int] = []

    async def handle(record: Any) -> None:
        begun.append(record.offset)
        await asyncio.sleep(3_600)

    async def use(simulation: Simulation) -> None:
        async with (
            async_share_workers(simulation, handle) as workers,
            running(workers, lambda: len(begun) == 3),
        ):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    with sharing("loop ends", brokers=1) as (simulation, start):
        simulation.run(use(simulation))
        assert places(take(start(), 3)) == [(0, 2), (1, 2), (2, 2)]


def test_only_a_drain_that_took_place_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[int] = []

    async def handle(record: Any) -> None:
        begun.append(record.offset)
        await asyncio.sleep(3_600)

    async def use(simulation: Simulation, *, stops: bool) -> None:
        async with (
            async_share_workers(simulation, handle) as workers,
            running(workers, lambda: len(begun) == 3) as task,
        ):
            if stops:
                workers.stop()
                await asyncio.sleep(1)
            task.cancel()

    for stops in (False, True):
        begun.clear()
        with sharing("drain", brokers=1) as (simulation, _):
            simulation.run(use(simulation, stops=stops))
    assert "drain_timeout_ms" not in caplog.text


@pytest.mark.parametrize("in_report", [False, True])
def test_a_record_is_released_at_once_though_its_task_is_cancelled(in_report: bool) -> None:
    """Its lock was renewed for max_processing_ms, and nobody worked on it."""
    calls: list[tuple[int, int]] = []

    async def handle(record: Any) -> None:
        calls.append((record.offset, record.delivery_count))
        if record.delivery_count == 1:
            if in_report:
                raise ValueError
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    async def report(*_: Any) -> None:
        waits = asyncio.get_running_loop().create_future()
        waits.cancel()
        await waits

    async def use(simulation: Simulation) -> None:
        async with async_share_workers(simulation, handle, otherwise=report) as workers:
            end_ms = simulation.clock.now_ms() + LOCK_MS // 2
            await workers.run(lambda: workers.done == 1 or simulation.clock.now_ms() > end_ms)

    with sharing("cancelled inside", brokers=1, count=1) as (simulation, _):
        simulation.run(use(simulation))
        assert calls == [(0, 1), (0, 2)]


def test_a_run_that_is_cancelled_while_it_drains_raises_no_other_error() -> None:
    """commit() put its KafkaTimeoutError in the place of CancelledError."""
    handled: list[int] = []

    async def handle(record: Any) -> None:
        handled.append(record.offset)
        if record.offset:
            await asyncio.sleep(3_600)

    async def use(simulation: Simulation) -> None:
        async with async_share_workers(simulation, handle, drain_timeout_ms=1_000) as workers:
            async with running(workers, lambda: len(handled) == 3) as task:
                simulation.cluster.pause(1)
                workers.stop()
                await asyncio.sleep(0.5)
                task.cancel()
            simulation.cluster.resume(1)

    with sharing("silent", brokers=1) as (simulation, _):
        simulation.run(use(simulation))


def test_a_run_that_was_stopped_keeps_nothing_and_the_next_one_works() -> None:
    """Both runs use the same open consumer."""
    handled: list[tuple[int, int]] = []

    async def handle(record: Any) -> None:
        if record.delivery_count == 1:
            if record.offset:
                await asyncio.sleep(3_600)
            raise ValueError
        handled.append((record.offset, record.delivery_count))

    async def use(simulation: Simulation) -> None:
        retry = Retry(2, (600_000, 600_000))
        async with async_share_workers(
            simulation, handle, retry=retry, drain_timeout_ms=100
        ) as workers:

            def begun() -> bool:
                if in_work(workers) == (2, True):
                    workers.stop()
                return False

            await workers.run(begun)
            end_ms = simulation.clock.now_ms() + LOCK_MS // 2
            await workers.run(lambda: workers.done == 3 or simulation.clock.now_ms() > end_ms)

    with sharing("two runs", brokers=1) as (simulation, _):
        simulation.run(use(simulation))
        assert sorted(handled) == [(0, 2), (1, 2), (2, 2)]


def test_a_cancelled_run_does_not_wait_for_handlers() -> None:
    begun: list[int] = []

    async def handle(record: Any) -> None:
        begun.append(record.offset)
        await asyncio.sleep(3_600)

    async def use(simulation: Simulation) -> None:
        async with async_share_workers(simulation, handle) as workers:
            async with running(workers, lambda: len(begun) == 3) as task:
                began_ms = simulation.clock.now_ms()
                task.cancel()
            assert simulation.clock.now_ms() - began_ms < 1_000

    with sharing("soon", brokers=1) as (simulation, _):
        simulation.run(use(simulation))


def test_a_run_goes_on_as_soon_as_a_handler_has_returned() -> None:
    """With all workers busy, it looked only each tenth of a second."""
    calls_ms: list[int] = []

    async def use(simulation: Simulation) -> None:
        async def handle(_: Any) -> None:
            calls_ms.append(simulation.clock.now_ms())
            await asyncio.sleep(0.01)

        async with async_share_workers(simulation, handle, workers=1) as workers:
            await workers.run(lambda: workers.done == 3)

    with sharing("news", brokers=1) as (simulation, _):
        simulation.run(use(simulation))
        assert calls_ms[-1] - calls_ms[0] < CHECK_MS


@pytest.mark.parametrize("most_waiting", [1, 1_000])
def test_the_next_attempt_begins_when_it_is_due(
    monkeypatch: pytest.MonkeyPatch, most_waiting: int
) -> None:
    monkeypatch.setattr(share_attempts, "MOST_WAITING", most_waiting)
    calls_ms: list[int] = []

    async def use(simulation: Simulation) -> None:
        async def handle(_: Any) -> None:
            calls_ms.append(simulation.clock.now_ms())
            raise ValueError

        async with async_share_workers(simulation, handle, retry=Retry(5, (150, 150))) as workers:
            await workers.run(lambda: len(calls_ms) == 5)

    with sharing("due", brokers=1, count=1) as (simulation, _):
        simulation.run(use(simulation))
        assert calls_ms[-1] - calls_ms[0] < 750  # 4 times 150 ms, or 20 % more
