"""Each method is cancelled at each of its suspensions; the consumer then works as before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.cancelling import MODES, Canceller
from tests.simulation.async_groups import SETTLE_MS, AsyncGroup, AwaitingListener

Consumer = AsyncKafkaConsumer[Any, Any]
Call = Callable[[Consumer, TopicPartition], Coroutine[Any, Any, object]]

#: The calls, and what they return for a partition with five records that have been read.
CALLS: dict[str, tuple[Call, object]] = {
    "commit": (lambda consumer, _: consumer.commit(), None),
    "committed": (lambda consumer, tp: consumer.committed(tp), 5),
    "position": (lambda consumer, tp: consumer.position(tp), 5),
    "beginning_offsets": (lambda consumer, tp: consumer.beginning_offsets([tp]), "first"),
    "end_offsets": (lambda consumer, tp: consumer.end_offsets([tp]), "end"),
    "offsets_for_times": (lambda consumer, tp: consumer.offsets_for_times({tp: 2**50}), "none"),
    "topics": (lambda consumer, _: consumer.topics(), {"orders"}),
    "cluster": (lambda consumer, _: _topics_of(consumer), {"orders"}),
    "partitions_for_topic": (lambda consumer, _: consumer.partitions_for_topic("new"), {0}),
    "enforce_rebalance": (lambda consumer, _: consumer.enforce_rebalance(), None),
    "seek_to_end": (lambda consumer, tp: _sought(consumer, tp, consumer.seek_to_end(tp)), 5),
    "seek_to_beginning": (
        lambda consumer, tp: _sought(consumer, tp, consumer.seek_to_beginning(tp)),
        0,
    ),
}


async def _topics_of(consumer: Consumer) -> set[str]:
    return set((await consumer.cluster()).topics)


async def _sought(consumer: Consumer, tp: TopicPartition, seek: Coroutine[Any, Any, None]) -> Any:
    await seek
    return await consumer.position(tp)


class Member:
    """A member that has read everything."""

    def __init__(self, simulation: Simulation, protocol: str) -> None:
        self.group = AsyncGroup(simulation, protocol)
        self.consumer = self.group.consumer()
        self.listener = AwaitingListener(self.consumer)
        self.topic = self.group.partitions[0].topic

    async def start(self) -> None:
        await self.consumer.start()
        await self.consumer.subscribe([self.topic], listener=self.listener)
        self.group.members.append(self.consumer)
        await self.read_all()
        await self.consumer.commit()

    async def read_all(self) -> None:
        clock = self.group.simulation.clock
        until_ms = clock.now_ms() + SETTLE_MS
        while not (self.group.settled() and self.group.all_read()):
            assert clock.now_ms() < until_ms, "not everything is read"
            for records in (await self.consumer.poll(200)).values():
                self.group.note(records)

    async def close(self) -> None:
        await self.consumer.close()
        self.group.check_all_committed()
        assert not self.listener.owned


def each_suspension(mode: str, run: Callable[[Simulation, Canceller], Any], least: int) -> None:
    """Run with a cancellation at the first suspension, at the second one, until there is none."""
    at = 0
    while True:
        at += 1
        canceller = Canceller(at, mode)
        with Simulation(at) as simulation:
            simulation.run(run(simulation, canceller))
        if not canceller.done:
            break
    assert at > least


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CALLS)
def test_a_cancelled_call_changes_nothing(name: str, mode: str) -> None:
    call, expected = CALLS[name]

    async def run(simulation: Simulation, canceller: Canceller) -> None:
        simulation.cluster.create_topic("new" if name == "partitions_for_topic" else "orders-2", 1)
        member = Member(simulation, "consumer")
        await member.start()
        tp = member.group.partitions[0]
        try:
            await canceller.attempt(call(member.consumer, tp))
        except asyncio.CancelledError:
            assert canceller.struck
        else:
            assert not canceller.struck
        found = await call(member.consumer, tp)
        if isinstance(expected, str):
            assert found == {tp: {"first": 0, "end": 5, "none": None}[expected]}
        elif isinstance(expected, set):
            assert isinstance(found, set)
            assert expected <= found
        else:
            assert found == expected
        if name == "seek_to_beginning":
            member.consumer.seek(tp, 5)
        await member.read_all()
        await member.close()

    each_suspension(mode, run, least=0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_ends_after_a_cancelled_poll_balances_its_calls(
    protocol: str, mode: str
) -> None:
    """Nothing is revoked that the listener did not receive, and everything that it did receive."""

    async def run(simulation: Simulation, canceller: Canceller) -> None:
        member = Member(simulation, protocol)
        await member.consumer.start()
        await member.consumer.subscribe([member.topic], listener=member.listener)
        member.group.members.append(member.consumer)
        try:
            while not member.consumer.assignment() and not canceller.done:
                await canceller.attempt(member.consumer.poll(200))
        except asyncio.CancelledError:
            pass
        await member.consumer.close()
        assert not member.listener.owned

    each_suspension(mode, run, least=3)
