"""Cancellation at each suspension of every call: nothing is lost, repeated or committed too early.

One life of a member has all calls. A run of it is cancelled at one suspension. The cancelled call
is made again, and the life continues. The next run is cancelled one suspension later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer
from tandem_kafka_testing import Simulation
from tests.scenarios.cancelling import MODES, Canceller
from tests.scenarios.numbered_records import produce
from tests.simulation.async_groups import SETTLE_MS, AsyncGroup, AwaitingListener
from tests.tier import sample

#: The protocols, and ways in which a member reads.
LIVES = [
    ("classic", "poll"),
    ("consumer", "poll"),
    ("consumer", "iteration"),
    ("classic", "batches"),
    ("consumer", "arrow"),
]


class Life:
    """A member that starts, reads, shares its partitions with another one, and closes."""

    def __init__(self, group: AsyncGroup, canceller: Canceller, reading: str) -> None:
        self.group = group
        self.canceller = canceller
        self.reading = reading
        self.member: AsyncKafkaConsumer[Any, Any]
        self.listener: AwaitingListener

    async def run(self) -> None:
        group = self.group
        await self.start()
        topic = group.partitions[0].topic
        await self.canceller.repeat(lambda: self.member.subscribe([topic], listener=self.listener))
        await self.settle()
        await self.canceller.repeat(self.member.commit)
        other = group.consumer()
        async with other:
            await other.subscribe([topic], listener=AwaitingListener(other))
            group.members.append(other)
            reading = asyncio.create_task(self.read_on(other))
            await self.share()
            group.members.remove(other)
            reading.cancel()
            await asyncio.wait([reading])
            assert reading.cancelled(), reading.exception()
            await self.close()
        group.check_commits()

    async def start(self) -> None:
        while True:
            self.member = self.group.consumer()
            self.listener = AwaitingListener(self.member)
            try:
                await self.canceller.attempt(self.member.start())
            except asyncio.CancelledError:
                assert self.group.simulation.drivers[-1].ended
                continue
            self.group.members.append(self.member)
            return

    async def share(self) -> None:
        """Read until both members have partitions and everything is read."""
        await self.settle()
        for tp in self.group.partitions:
            produce(self.group.simulation, tp, 3)
        await self.settle()
        assert self.listener.owned == self.member.assignment()

    async def settle(self) -> None:
        group = self.group
        until_ms = group.simulation.clock.now_ms() + SETTLE_MS
        while not (group.settled() and group.all_read()):
            assert group.simulation.clock.now_ms() < until_ms, "the group does not settle"
            await self.read()

    async def read(self) -> None:
        """Return what one call returns; a call that takes too long is cancelled."""
        call = self._call()
        try:
            async with asyncio.timeout(0.5):
                found = await self.canceller.repeat(call)
        except TimeoutError:
            return
        self.group.note(found)

    def _call(self) -> Any:
        member = self.member
        iterator: AsyncIterator[Any]
        if self.reading == "poll":
            return lambda: _flat(member.poll(200))
        if self.reading == "iteration":
            return lambda: _one(member)
        if self.reading == "batches":
            iterator = member.batches(max_records=3, max_wait_ms=50)
            return lambda: _flat(anext(iterator))
        iterator = member.arrow_batches()
        return lambda: _rows(iterator)

    async def read_on(self, other: AsyncKafkaConsumer[Any, Any]) -> None:
        """Read with the other member, which is not cancelled."""
        async for record in other:
            self.group.note([record])

    async def close(self) -> None:
        """Close the member: everything is committed, and a cancellation follows."""
        canceller, member = self.canceller, self.member
        try:
            await canceller.attempt(member.close())
        except asyncio.CancelledError:
            assert canceller.struck
        else:
            assert not canceller.struck, "the close swallowed a cancellation"
        assert member._core.driver.ended
        assert not self.listener.owned
        assert not member._core.driver.waiting
        for tp in sorted(member.assignment()):
            assert self.group.simulation.cluster.committed("readers", tp) == self.group.next(tp)


async def _flat(polled: Any) -> list[Any]:
    return [record for records in (await polled).values() for record in records]


async def _one(member: AsyncKafkaConsumer[Any, Any]) -> list[Any]:
    return [await anext(member)]


class _Row:
    """A row of an Arrow record batch, with the names of a record."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


async def _rows(iterator: AsyncIterator[Any]) -> list[Any]:
    return [_Row(row) for row in (await anext(iterator)).to_pylist()]


@pytest.mark.parametrize("mode", sample(MODES, 1))
@pytest.mark.parametrize(("protocol", "reading"), sample(LIVES, 1))
def test_no_suspension_loses_or_repeats_a_record(protocol: str, reading: str, mode: str) -> None:
    at = 0
    while True:
        at += 1
        with Simulation(at) as simulation:
            group = AsyncGroup(simulation, protocol)
            canceller = Canceller(at, mode)
            simulation.run(Life(group, canceller, reading).run())
            assert set(group.read.values()) == {1}
        if not canceller.done:
            break
    assert at > 30
