"""Members that are asyncio consumers; some of their calls are cancelled or time out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from tandem_kafka import AsyncKafkaConsumer
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import KafkaError, RebalanceCallbackError
from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.cancelling import MODES, Canceller
from tests.scenarios.listener import CheckingListener
from tests.scenarios.violation import Violation

__all__ = ["async_member"]

Call = Callable[[], Coroutine[Any, Any, Any]]


def async_member(
    simulation: Simulation, runner: asyncio.Runner, options: dict[str, Any]
) -> KafkaConsumer:
    """Return a started asyncio consumer, with the methods of `KafkaConsumer` that members need."""
    return cast(KafkaConsumer, _AsyncMember(simulation, runner, options))


class _AsyncListener:
    """Awaits after each call of a listener. A cancellation arrives there or in the consumer."""

    def __init__(self, checks: CheckingListener, simulation: Simulation, random: Random) -> None:
        self._checks = checks
        self._clock = simulation.clock
        self._random = random

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._checks.on_partitions_assigned(assigned)
        await self._wait()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._checks.on_partitions_revoked(revoked)
        await self._wait()

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._checks.on_partitions_lost(lost)
        await self._wait()

    async def _wait(self) -> None:
        began_ms = self._clock.now_ms()
        try:
            await asyncio.sleep(self._random.choice([0, 0, 0.02, 1]))
        finally:
            self._checks.slept_ms += self._clock.now_ms() - began_ms


class _AsyncMember:
    """Makes each call in a task. What a cancelled call returned is nothing."""

    def __init__(
        self, simulation: Simulation, runner: asyncio.Runner, options: dict[str, Any]
    ) -> None:
        self._simulation = simulation
        self._runner = runner
        number = len(simulation.drivers)
        # A separate source of randomness keeps all other draws of the seed as they were.
        self._random = Random(f"{simulation.seed}/cancellations of {number}")
        self._consumer: AsyncKafkaConsumer[Any, Any] = simulation.async_consumer(**options)
        runner.run(self._consumer.start())
        self.assignment = self._consumer.assignment
        self.group_metadata = self._consumer.group_metadata
        self.paused = self._consumer.paused

    @property
    def _core(self) -> Any:
        return self._consumer._core

    # --- calls that may be cancelled -----------------------------------------------------------

    def poll(self, timeout_ms: int) -> ConsumerRecords[Any, Any]:
        """Poll, perhaps while another task commits."""
        poll = lambda: self._consumer.poll(timeout_ms)  # noqa: E731
        if self._random.random() < 0.2:
            found = self._runner.run(self._beside_a_commit(poll, timeout_ms))
        else:
            found = self._runner.run(self._cancelled(poll))
        return ConsumerRecords() if found is None else found

    def commit(self, timeout_ms: int) -> None:
        """Commit all positions."""
        self._runner.run(self._cancelled(lambda: self._consumer.commit(timeout_ms=timeout_ms)))

    def position(self, tp: TopicPartition, timeout_ms: int) -> int | None:
        """Return the position."""
        call = lambda: self._consumer.position(tp, timeout_ms)  # noqa: E731
        found: int | None = self._runner.run(self._cancelled(call))
        return found

    def committed(self, tp: TopicPartition, timeout_ms: int) -> int | None:
        """Return the committed offset."""
        call = lambda: self._consumer.committed(tp, timeout_ms=timeout_ms)  # noqa: E731
        found: int | None = self._runner.run(self._cancelled(call))
        return found

    def end_offsets(self, tps: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        """Return the ends of partitions."""
        call = lambda: self._consumer.end_offsets(tps, timeout_ms)  # noqa: E731
        found: dict[TopicPartition, int] | None = self._runner.run(self._cancelled(call))
        return found or {}

    def subscribe(self, topics: list[str], listener: CheckingListener) -> None:
        """Subscribe."""
        awaiting = _AsyncListener(listener, self._simulation, self._random)
        self._runner.run(self._consumer.subscribe(topics, listener=awaiting))

    async def _cancelled(self, call: Call) -> Any:
        """Make a call, perhaps with a timeout or a cancellation; return None if it is cancelled."""
        drawn = self._random.random()
        if drawn < 0.4:
            return await call()
        if drawn < 0.7:
            try:
                async with asyncio.timeout(self._random.choice([0, 0.001, 0.01, 0.1])):
                    return await call()
            except TimeoutError:
                return None
        canceller = self._canceller()
        try:
            return await canceller.attempt(call())
        except asyncio.CancelledError:
            return None

    def _canceller(self) -> Canceller:
        return Canceller(self._random.randrange(1, 8), self._random.choice(MODES))

    async def _beside_a_commit(self, poll: Call, timeout_ms: int) -> Any:
        """Poll while another task commits until its cancellation."""
        committing = asyncio.create_task(self._consumer.commit(timeout_ms=timeout_ms))
        try:
            return await self._cancelled(poll)
        finally:
            committing.cancel()
            await asyncio.wait([committing])
            error = None if committing.cancelled() else committing.exception()
            if error is not None and not isinstance(error, KafkaError):
                raise error

    # --- calls that end before their cancellation is raised ------------------------------------

    def unsubscribe(self) -> None:
        """Unsubscribe; a cancellation does not prevent it."""
        self._runner.run(self._completed(self._consumer.unsubscribe))

    def close(self, *, leave_group: Any = "default") -> None:
        """Close; a cancellation does not prevent it."""
        self._runner.run(self._completed(lambda: self._consumer.close(leave_group=leave_group)))
        if not self._core.driver.ended:
            raise Violation("closed, and the network thread still runs")

    async def _completed(self, call: Call) -> None:
        canceller = self._canceller()
        try:
            await canceller.attempt(call())
        except asyncio.CancelledError as error:
            if not canceller.struck:
                raise Violation("a call is cancelled, but its task is not") from error
            if isinstance(error.__context__, RebalanceCallbackError):
                raise error.__context__  # noqa: B904 - it has its own cause
        else:
            if canceller.struck:
                raise Violation("a call swallowed a cancellation")
