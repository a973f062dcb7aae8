"""`AsyncKeyedWorkers` on a simulated cluster, in an event loop of simulated time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tandem_kafka.errors import ArgumentTypeError
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import OffsetCommitRequest
from tandem_kafka.workers import Retry
from tandem_kafka_testing import CUT, Call
from tandem_kafka_testing.clock import SimClock
from tandem_kafka_testing.simulation import Simulation
from tests.simulation.simulated_workers import OPTIONS, workers_on
from tests.simulation.test_workers import PROTOCOLS, TP, committed, filled, key_of

Handle = Callable[..., Any]


def run_workers(
    simulation: Simulation,
    handle: Handle,
    use: Callable[[Any, Any], Any],
    **options: Any,
) -> None:
    """Make a consumer and workers in the event loop, and let `use` run them."""

    async def main() -> None:
        async with simulation.async_consumer("orders", **OPTIONS) as consumer:
            await use(workers_on(simulation, consumer, handle, **options), consumer)

    simulation.run(main())


def test_all_workers_begin_as_soon_as_there_are_records() -> None:
    """A task that takes a record wakes the next one, without another step of the run."""
    with Simulation() as simulation:
        filled(simulation, 8)
        begun_ms: list[int] = []

        async def handle(_: Any) -> None:
            begun_ms.append(simulation.clock.now_ms())
            await asyncio.sleep(20)

        async def use(workers: Any, _: Any) -> None:
            await workers.run(until=lambda: workers.done == 8)

        run_workers(simulation, handle, use, order="none", workers=4)
        assert len(set(begun_ms[:4])) == 1


def test_retries_do_not_block_other_keys_and_a_coroutine_takes_what_is_exhausted() -> None:
    with Simulation() as simulation:
        filled(simulation, 70)
        handled: list[int] = []
        letters: list[tuple[int, int]] = []

        async def handle(record: Any) -> None:
            await asyncio.sleep(0.001)
            if record.offset == 3:
                raise ValueError("broken")
            handled.append(record.offset)

        async def to_dead_letters(record: Any, error: Exception, attempts: int) -> None:
            assert isinstance(error, ValueError)
            await asyncio.sleep(0.01)
            letters.append((record.offset, attempts))

        async def use(workers: Any, _: Any) -> None:
            await workers.run(until=lambda: workers.done == 70)

        run_workers(simulation, handle, use, key=key_of, retry=Retry(3), exhausted=to_dead_letters)
        assert letters == [(3, 3)]
        assert handled[-9:] == list(range(10, 70, 7)), "the others did not wait"
        assert committed(simulation) == 70


def test_a_cancelled_run_tells_of_no_drain(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Simulation() as simulation:
        filled(simulation, 10)

        async def handle(_: Any) -> None:
            await asyncio.sleep(1_000)

        async def use(workers: Any, _: Any) -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(workers.run(), 10)

        # As the real clock, which has parts of milliseconds.
        monkeypatch.setattr(SimClock, "after_ms", lambda clock, ms: clock.now_ms() + int(ms) + 1)
        run_workers(simulation, handle, use, order="none")
        assert "drain" not in caplog.text


def test_each_record_of_a_batch_is_reported() -> None:
    with Simulation() as simulation:
        filled(simulation, 70)
        letters: list[int] = []

        async def handle(_: Any) -> None:
            raise ValueError("broken")

        async def use(workers: Any, _: Any) -> None:
            await workers.run(until=lambda: workers.done == 70)

        report = lambda record, *_: letters.append(record.offset)  # noqa: E731 - on one line
        run_workers(simulation, handle, use, key=key_of, batch=5, workers=1, exhausted=report)
        assert sorted(letters) == list(range(70))


def test_cancelling_the_run_commits_what_is_done() -> None:
    with Simulation() as simulation:
        filled(simulation, 20)
        cancelled: list[int] = []

        async def handle(record: Any) -> None:
            if record.offset == 10:
                try:
                    await asyncio.sleep(3_600)
                except asyncio.CancelledError:
                    cancelled.append(record.offset)
                    raise

        async def use(workers: Any, _: Any) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await workers.run()
            assert cancelled == [10]
            assert len(asyncio.all_tasks()) == 1

        began_ms = simulation.clock.now_ms()
        run_workers(simulation, handle, use, key=key_of)
        assert simulation.clock.now_ms() - began_ms < 10_000
        assert committed(simulation) == 10
        commits = simulation.cluster.coordination.of("billing").offsets.committed
        assert commits[TP].metadata, "what is done behind it is marked"


def test_a_handler_that_exceeds_the_drain_is_cancelled_at_the_end() -> None:
    with Simulation() as simulation:
        filled(simulation, 3)

        async def handle(record: Any) -> None:
            await asyncio.sleep(3_600 if record.offset == 1 else 0.001)

        async def use(workers: Any, _: Any) -> None:
            await workers.run(until=lambda: workers.done == 2)

        began_ms = simulation.clock.now_ms()
        run_workers(simulation, handle, use, order="none", drain_timeout_ms=2_000)
        assert 2_000 <= simulation.clock.now_ms() - began_ms < 6_000
        assert committed(simulation) == 1


def test_a_cancellation_inside_the_handler_is_a_failed_attempt() -> None:
    with Simulation() as simulation:
        filled(simulation, 1)
        attempts: list[int] = []

        async def handle(record: Any) -> None:
            attempts.append(record.offset)
            if len(attempts) == 1:
                raise asyncio.CancelledError

        async def use(workers: Any, _: Any) -> None:
            await workers.run(until=lambda: workers.done == 1)

        run_workers(simulation, handle, use, retry=Retry(2))
        assert attempts == [0, 0]


async def cancels_itself() -> None:
    """Ends by a cancellation of its own task."""
    stopped().cancel()
    await asyncio.sleep(1)


async def times_out() -> None:
    """Does what a library for timeouts does that never calls `uncancel()`."""
    stopped().cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(1)
    raise TimeoutError


async def times_out_at_once() -> None:
    """The same; the cancellation arrives where the task waits next."""
    stopped().cancel()
    raise TimeoutError


async def leaves_a_timer() -> None:
    """Cancels the task when it does something else."""
    asyncio.get_running_loop().call_later(1, stopped().cancel)
    raise TimeoutError


def stopped() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


OWN_CANCELLATIONS = [cancels_itself, times_out, times_out_at_once, leaves_a_timer]


@pytest.mark.parametrize("fails", OWN_CANCELLATIONS)
def test_a_handler_that_cancels_its_own_task_ends_no_worker(fails: Any) -> None:
    """The worker ended in silence, and without workers the run never did."""
    with Simulation() as simulation:
        filled(simulation, 10)
        attempts: Counter[int] = Counter()

        async def handle(record: Any) -> None:
            attempts[record.offset] += 1
            if record.offset in (3, 7) and attempts[record.offset] == 1:
                await fails()
            if record.offset == 8 and attempts[8] == 1:
                raise asyncio.CancelledError  # something else that is cancelled

        async def use(workers: Any, _: Any) -> None:
            async with asyncio.timeout(600):
                await workers.run(until=lambda: workers.done == 10)
            if fails is leaves_a_timer:
                await asyncio.sleep(2)

        options: dict[str, Any] = {"workers": 2, "order": "none", "retry": Retry(3, (3_000, 3_000))}
        run_workers(simulation, handle, use, **options)
        assert attempts == {offset: 1 + (offset in (3, 7, 8)) for offset in range(10)}
        assert committed(simulation) == 10


@pytest.mark.parametrize("fails", [False, True])
def test_a_loop_that_ends_is_no_failed_attempt(fails: bool) -> None:
    """It cancels all tasks at once, that of the run last, and no retry follows.

    A record whose handler could not clean up was skipped, and committed.
    """
    with Simulation() as simulation:
        filled(simulation, 4)
        ends: list[BaseException] = []

        async def handle(record: Any) -> None:
            try:
                await asyncio.sleep(3_600 if record.offset else 0)
            except asyncio.CancelledError:
                if fails:
                    raise ConnectionError("the transaction cannot be rolled back") from None
                raise

        async def use(workers: Any, _: Any) -> None:
            running = asyncio.create_task(workers.run())
            while workers.done < 1:  # noqa: ASYNC110 - as others do
                await asyncio.sleep(0.1)
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in sorted(tasks, key=lambda task: task is running):
                task.cancel()
            ends.extend(await asyncio.gather(running, return_exceptions=True))

        run_workers(simulation, handle, use, order="none", exhausted="skip")
        assert [type(each) for each in ends] == [asyncio.CancelledError]
        assert committed(simulation) == 1


def test_an_ordinary_function_is_an_error() -> None:
    with Simulation() as simulation:
        filled(simulation, 1)

        async def use(workers: Any, _: Any) -> None:
            with pytest.raises(ArgumentTypeError, match="async def"):
                await workers.run()

        run_workers(simulation, lambda _: None, use)
        assert committed(simulation) == 0


def test_commits_are_made_in_the_background() -> None:
    with Simulation() as simulation:
        filled(simulation, 100)

        async def handle(_: Any) -> None:
            await asyncio.sleep(0.05)

        seen: list[Any] = []

        def enough(workers: Any) -> bool:
            seen.append(committed(simulation))
            return bool(workers.done == 100)

        async def use(workers: Any, _: Any) -> None:
            await workers.run(until=lambda: enough(workers))

        run_workers(simulation, handle, use, order="none", workers=1, commit_interval_ms=500)
        assert len(set(seen)) > 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_drains_and_hands_over_what_is_done(protocol: dict[str, Any]) -> None:
    with Simulation() as simulation:
        filled(simulation, 200, partitions=4)
        handled: list[tuple[int, int]] = []

        async def handle(record: Any) -> None:
            await asyncio.sleep(0.02)
            handled.append((record.partition, record.offset))

        revoked: list[TopicPartition] = []

        class Listener:
            async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
                await asyncio.sleep(0.01)
                revoked.extend(partitions)

            async def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
                pass

        async def member(start_s: float) -> None:
            await asyncio.sleep(start_s)
            options = {**OPTIONS, **protocol}
            async with simulation.async_consumer("orders", **options) as consumer:
                workers = workers_on(
                    simulation, consumer, handle, order="none", workers=3, listener=Listener()
                )
                await workers.run(until=lambda: len(handled) >= 800)

        async def both() -> None:
            await asyncio.gather(member(0), member(4))

        simulation.run(both())
        assert revoked
        assert len(handled) == 800, "nothing is repeated"
        assert len(set(handled)) == 800


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_that_is_cancelled_in_a_revocation_commits_what_is_done(
    protocol: dict[str, Any],
) -> None:
    """Its commit waited for another attempt, and was given up; records were handled again."""
    with Simulation() as simulation:
        filled(simulation, 200, partitions=4)
        handled: list[tuple[int, int]] = []
        running: list[asyncio.Task[None]] = []

        async def handle(record: Any) -> None:
            await asyncio.sleep(0.02)
            handled.append((record.partition, record.offset))

        def cut(_: Call) -> Any:
            asyncio.get_running_loop().call_later(0.01, running[0].cancel)
            return CUT

        async def member(start_s: float) -> None:
            await asyncio.sleep(start_s)
            async with simulation.async_consumer("orders", **OPTIONS, **protocol) as consumer:
                options = {"workers": 3, "commit_interval_ms": 600_000}
                workers = workers_on(simulation, consumer, handle, order="none", **options)
                running.append(asyncio.create_task(workers.run(until=lambda: len(handled) >= 800)))
                with suppress(asyncio.CancelledError):
                    await running[-1]

        async def both() -> None:
            simulation.cluster.script(OffsetCommitRequest, cut)
            await asyncio.gather(member(0), member(4))

        simulation.run(both())
        assert running[0].cancelled()
        assert len(handled) == len(set(handled)) == 800, "nothing is repeated"
