"""What is cancelled or woken up is over: nothing is retried for it, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import takewhile
from typing import Any

import pytest
from kafka.errors import CoordinatorLoadInProgressError

from tandem_kafka import AsyncKafkaConsumer, KafkaConsumer, TopicPartition
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError, WakeupError
from tandem_kafka.wire.messages import OffsetCommitRequest
from tandem_kafka_testing import Call, Simulation
from tests.scenarios.cancelling import MODES, Canceller
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.async_groups import options_for
from tests.simulation.sharing import started
from tests.simulation.test_share_groups import sharing
from tests.tier import bytecodes, sample

PROTOCOLS = ["classic", "consumer"]
Async = AsyncKafkaConsumer[Any, Any]

#: By this suspension, the other member has its partitions.
LAST = 45


def two_topics(simulation: Simulation) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Create a topic of four partitions, and one that is deleted later; each has five records."""
    kept, gone = create_topic(simulation, "orders", 4), create_topic(simulation, "gone", 1)
    for tp in (*kept, *gone):
        produce(simulation, tp, 5)
    return kept, gone


def commits(simulation: Simulation) -> int:
    """Return the number of requests to commit so far."""
    brokers = simulation.cluster.brokers.values()
    return sum(broker.requests.get("OffsetCommitRequest", 0) for broker in brokers)


def silence(simulation: Simulation) -> None:
    """Let no request arrive any more, and no response; connections stay open."""
    simulation.network.silent |= {each.address for each in simulation.cluster.brokers.values()}


class Pair:
    """A member with all partitions, one of whose topics is deleted, and another that joins later.

    Attributes:
        read: The records that were returned.
        high: The highest offset of each partition that was ever committed.
    """

    def __init__(self, simulation: Simulation, protocol: str, **options: Any) -> None:
        self.simulation = simulation
        self.kept, self.gone = two_topics(simulation)
        chosen = options_for(protocol, **options)
        self.first = simulation.async_consumer(**chosen, client_id="A")
        self.other = simulation.async_consumer(**chosen, client_id="B")
        self.read: list[tuple[TopicPartition, int]] = []
        self.tasks: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        await self.first.start()
        await self.other.start()
        await self.first.subscribe(["orders", "gone"])
        while len(self.read) < 25:
            self.note(await self.first.poll(300))
        self.simulation.cluster.delete_topic("gone")

    def note(self, batch: Any) -> None:
        self.read += [(tp, each.offset) for tp, records in batch.items() for each in records]

    async def join(self, poll: Callable[[Async], Awaitable[Any]]) -> float:
        """Let the other member join; return after how many seconds it has its partitions."""

        async def reads(member: Async, poll: Callable[[Async], Awaitable[Any]]) -> None:
            while True:
                self.note(await poll(member))

        async def commits_too(member: Async) -> Any:
            batch = await member.poll(100)
            if batch:
                await member.commit()
            return batch

        await self.other.subscribe(["orders"])
        began = asyncio.get_running_loop().time()
        self.tasks = [
            asyncio.create_task(reads(self.first, poll)),
            asyncio.create_task(reads(self.other, commits_too)),
        ]
        while not self.other.assignment():
            assert asyncio.get_running_loop().time() < began + 100, "no partitions"
            await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time() - began

    async def read_on(self, seconds: float) -> None:
        """Produce more for the other member, and let both read for a while."""
        for tp in sorted(self.other.assignment()):
            produce(self.simulation, tp, 10)
        await asyncio.sleep(seconds)

    def check(self) -> None:
        """Check that all records were read once, and that no committed offset was set back."""
        assert len(self.read) == len(set(self.read)), "a record was returned twice"
        high: dict[TopicPartition, int] = {}
        for tp, (offset, _, _), _ in self.simulation.cluster.commit_log:
            assert offset >= high.get(tp, 0), f"{tp} set back from {high[tp]} to {offset}"
            high[tp] = offset
        for tp in sorted(self.other.assignment()):
            assert self.simulation.cluster.committed("readers", tp) == 15
            assert len([1 for of, _ in self.read if of == tp]) == 15

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
            failed = [task for task in self.tasks if not task.cancelled()]
            assert not failed, failed[0].exception()
        await self.first.close()
        await self.other.close()


async def cancelled_after(seconds: float, call: Awaitable[Any]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await call


async def poll(member: Async) -> Any:
    return await member.poll(100)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("how", [WakeupError, KeyboardInterrupt])
def test_a_woken_or_interrupted_commit_is_not_sent_again(
    protocol: str, how: type[BaseException]
) -> None:
    """It was sent each second, for 60 s, because one of its topics had been deleted."""
    with Simulation(3) as simulation:
        two_topics(simulation)
        consumer = simulation.consumer(**options_for(protocol, enable_auto_commit=False))
        consumer.subscribe(["orders", "gone"])
        read = 0
        while read < 25:
            read += consumer.poll(300).count
        simulation.cluster.delete_topic("gone")
        if how is WakeupError:
            simulation.after(1_500, consumer.wakeup)
        else:
            press_ctrl_c_at(simulation, simulation.clock.now_ms() + 1_500)
        with pytest.raises(how):
            consumer.commit()
        before = commits(simulation)
        for _ in range(140):
            consumer.poll(500)
        assert commits(simulation) == before


def press_ctrl_c_at(simulation: Simulation, when_ms: int) -> None:
    """Interrupt the wait of the consumer's thread once."""
    driver: Any = simulation.drivers[0]
    wait, clock = driver.wait, simulation.clock

    def interrupted(ready: Callable[[], bool], deadline_ms: int) -> bool:
        if wait(ready, min(when_ms, deadline_ms)) or deadline_ms <= when_ms:
            return bool(ready())
        assert clock.now_ms() >= when_ms
        driver.wait = wait
        raise KeyboardInterrupt

    driver.wait = interrupted


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cancelled_commit_sets_no_other_member_back_and_holds_no_rebalance(
    protocol: str,
) -> None:
    """The other member's offsets were set back each second; with auto-commit, it waited 60 s."""

    async def run(pair: Pair) -> None:
        await pair.start()
        await cancelled_after(1, pair.first.commit())
        assert await pair.join(poll) < 10
        await pair.read_on(70)
        pair.check()
        await pair.close()

    for automatic in (False, True):
        with Simulation(f"{automatic}") as simulation:
            simulation.run(run(Pair(simulation, protocol, enable_auto_commit=automatic)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("expelled", [False, True])
def test_a_commit_that_waits_is_not_sent_in_a_later_tenure(protocol: str, expelled: bool) -> None:
    """Nobody has cancelled it: its partitions belong to another member now."""

    def loading(call: Call) -> Any:
        answer = call.default()
        if call.client_id == "A":
            for each in answer.topics:
                for entry in each.partitions:
                    entry.error_code = CoordinatorLoadInProgressError.errno
        return answer

    async def run(pair: Pair) -> None:
        await pair.start()
        log = pair.simulation.cluster.commit_log
        pair.simulation.cluster.script(OffsetCommitRequest, *[loading] * 10_000)
        committing = asyncio.create_task(pair.first.commit())
        await asyncio.sleep(0.5)
        assert not committing.done()
        if expelled:
            member_id = pair.first.group_metadata().member_id
            assert pair.simulation.cluster.expel("readers", member_id)
        await pair.join(poll)
        with pytest.raises(CommitFailedError, match=r"released before|no longer a member"):
            await committing
        seen = len(log)
        await pair.read_on(20)
        for mine in sorted(pair.other.assignment()):
            offsets = [offset for tp, (offset, _, _), _ in log[seen:] if tp == mine]
            assert offsets == sorted(offsets)
            assert offsets[-1] == 15
        await pair.close()

    with Simulation(protocol) as simulation:
        simulation.run(run(Pair(simulation, protocol, enable_auto_commit=False)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_that_waits_for_a_deleted_topic_holds_no_rebalance(protocol: str) -> None:
    """Nobody has cancelled it: the commit before the revocation waited for its end, for 60 s."""

    async def run(pair: Pair) -> None:
        await pair.start()
        committing = asyncio.create_task(pair.first.commit())
        await asyncio.sleep(2)
        assert not committing.done()
        assert await pair.join(poll) < 10
        with pytest.raises(CommitFailedError):
            await committing
        await pair.read_on(20)
        pair.check()
        await pair.close()

    with Simulation(protocol) as simulation:
        simulation.run(run(Pair(simulation, protocol, enable_auto_commit=True)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("commit_ms", "poll_s"), [(400, 0.3), (5_000, 0.05)])
def test_a_revocation_has_one_commit_that_a_later_poll_awaits(
    protocol: str, commit_ms: int, poll_s: float
) -> None:
    """Each poll() began another one, behind those before it, for the whole max_poll_interval_ms."""

    def slow(call: Call) -> Any:
        call.delay_ms = commit_ms if call.client_id == "A" else 0
        return call.default()

    async def polls(member: Async) -> Any:
        try:
            async with asyncio.timeout(poll_s):
                return await member.poll()
        except TimeoutError:
            return {}

    async def run(pair: Pair) -> None:
        await pair.start()
        before = commits(simulation)
        pair.simulation.cluster.script(OffsetCommitRequest, *[slow] * 10_000)
        assert await pair.join(polls) < commit_ms / 1_000 + 5
        assert commits(simulation) == before + 1
        await pair.read_on(20)
        pair.check()
        await pair.close()

    with Simulation(protocol) as simulation:
        options = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000}
        simulation.run(run(Pair(simulation, protocol, **options)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_seek_after_a_cancelled_poll_is_committed_before_the_revocation(protocol: str) -> None:
    """The commit of the cancelled poll() was the last one, and the other member skipped records."""

    def slow(call: Call) -> Any:
        call.delay_ms = 1_000 if call.client_id == "A" else 0
        return call.default()

    async def polls(member: Async) -> Any:
        before = commits(simulation)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                return await member.poll()
        if commits(simulation) > before:
            for tp in kept:
                member.seek(tp, 3)
        return {}

    async def run(pair: Pair) -> None:
        await pair.start()
        pair.simulation.cluster.script(OffsetCommitRequest, *[slow] * 10_000)
        await pair.join(polls)
        log = simulation.cluster.commit_log
        for mine in pair.other.assignment():
            assert [offset for tp, (offset, _, _), _ in log if tp == mine][:2] == [5, 3]
        await pair.close()

    with Simulation(protocol) as simulation:
        options = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000}
        pair = Pair(simulation, protocol, **options)
        kept = pair.kept
        simulation.run(run(pair))


def test_only_what_was_not_stored_is_named_before_a_release(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(pair: Pair) -> None:
        await pair.start()
        await pair.join(poll)
        await pair.close()

    with Simulation("named") as simulation:
        options = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000}
        simulation.run(run(Pair(simulation, "consumer", **options)))
    [line] = [each.getMessage() for each in caplog.records if "not committed" in each.getMessage()]
    assert "gone-0" in line
    assert "orders" not in line


#: What a task may wait for while no broker responds.
CALLS: dict[str, Callable[[Async], Awaitable[Any]]] = {
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(TopicPartition("orders", 0)),
    "position": lambda consumer: consumer.position(TopicPartition("orders", 0)),
    "end_offsets": lambda consumer: consumer.end_offsets([TopicPartition("orders", 0)]),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("unknown"),
    "topics": lambda consumer: consumer.topics(),
    "cluster": lambda consumer: consumer.cluster(),
    "client_instance_id": lambda consumer: consumer.client_instance_id(20_000),
}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_of_a_cancelled_call(call: str) -> None:
    async def run(simulation: Simulation) -> None:
        async with simulation.async_consumer(**options_for("consumer")) as consumer:
            await consumer.subscribe(["orders", "gone"])
            read = 0
            while read < 25:
                read += (await consumer.poll(300)).count
            silence(simulation)
            if call == "position":
                await consumer.seek_to_end()
            reaper = consumer._core.engine.loop._reaper
            await asyncio.sleep(1)
            before = reaper.watched()
            await cancelled_after(1, CALLS[call](consumer))
            await asyncio.sleep(0.1)
            assert set(reaper.watched()) <= set(before)
            simulation.network.silent.clear()

    with Simulation(call) as simulation:
        two_topics(simulation)
        simulation.run(run(simulation))


@pytest.mark.parametrize("after_s", [0, 0.01, 1, 2, 2.005, 2.01, 2.02, 3])
def test_the_outcome_of_acknowledgements_is_told_once(after_s: float) -> None:
    """By the commit that was cancelled, or by the next one."""

    async def use(simulation: Simulation) -> None:
        consumer = await started(simulation)
        records: list[Any] = []
        while not records:
            records = [each for some in (await consumer.poll(500)).values() for each in some]
        for each in records:
            each.accept()
        [broker] = simulation.cluster.brokers.values()
        simulation.network.slow[broker.address] = 2_000
        told: list[Any] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(after_s):
                told.append(await consumer.commit())
        simulation.network.slow.clear()
        await asyncio.sleep(0.1)
        assert not consumer._core.engine.loop._reaper.watched()
        told += [await consumer.commit() for _ in range(2)]
        assert [each for each in told if each] == [{TopicPartition("orders", 0): None}]
        await consumer.close()

    with sharing("told", brokers=1) as (simulation, _):
        simulation.run(use(simulation))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("end", ["unsubscribe", "close"])
@pytest.mark.parametrize("automatic", [False, True])
def test_a_cancelled_end_waits_for_brokers_no_longer(
    protocol: str, end: str, automatic: bool
) -> None:
    """unsubscribe() ended after 60 s, close() after 30 s."""

    async def run(simulation: Simulation) -> None:
        options = options_for(protocol, enable_auto_commit=automatic)
        async with simulation.async_consumer(**options) as consumer:
            await consumer.subscribe(["orders", "gone"])
            read = 0
            while read < 25:
                read += (await consumer.poll(300)).count
            silence(simulation)
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(getattr(consumer, end)(), 1)
            assert loop.time() - began < 4
            assert end == "close" or not consumer.assignment()
            simulation.network.silent.clear()

    with Simulation(end) as simulation:
        two_topics(simulation)
        simulation.run(run(simulation))


class Slow:
    """Its assignments take three seconds, once there is another topic."""

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await asyncio.sleep(3 if TopicPartition("gone", 0) in assigned else 0)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Do nothing."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_close_that_is_cancelled_behind_a_listener_still_commits(protocol: str) -> None:
    """The second for brokers had passed in the listener of another task, so nothing was sent."""

    async def run(simulation: Simulation) -> None:
        options = options_for(protocol, enable_auto_commit=True, auto_commit_interval_ms=600_000)
        consumer = simulation.async_consumer(**options)
        await consumer.start()
        await consumer.subscribe(["orders"], listener=Slow())
        read = 0
        while read < 20:
            read += (await consumer.poll(300)).count
        await consumer.subscribe(["orders", "gone"], listener=Slow())
        polling = asyncio.create_task(consumer.poll())
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        await cancelled_after(0.2, consumer.close())
        assert asyncio.get_running_loop().time() - began > 1.5
        await polling
        for tp in kept:
            assert simulation.cluster.committed("readers", tp) == 5

    with Simulation(protocol) as simulation:
        kept, _ = two_topics(simulation)
        simulation.run(run(simulation))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cancelled_unsubscribe_still_commits_and_leaves(protocol: str) -> None:
    async def run(simulation: Simulation) -> None:
        options = options_for(protocol, enable_auto_commit=True, auto_commit_interval_ms=600_000)
        async with simulation.async_consumer(**options) as consumer:
            await consumer.subscribe(["orders", "gone"])
            read = 0
            while read < 25:
                read += (await consumer.poll(300)).count
            await cancelled_after(0.001, consumer.unsubscribe())
            assert simulation.cluster.committed("readers", TopicPartition("gone", 0)) == 5
            cluster = simulation.cluster
            group = cluster.group if protocol == "classic" else cluster.consumer_group
            assert not group("readers").members

    with Simulation(protocol) as simulation:
        two_topics(simulation)
        simulation.run(run(simulation))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("slow_ms", "after_s"), [(800, 0.5), (1_500, 2)])
def test_the_next_membership_does_not_overtake_the_end_of_the_last(
    protocol: str, slow_ms: int, after_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    """The coordinator removed the new member, which had the same id and another connection."""

    async def read(consumer: Async) -> None:
        found = 0
        while found < 25:
            found += (await consumer.poll(300)).count

    async def run(simulation: Simulation) -> None:
        options = options_for(protocol, enable_auto_commit=True, auto_commit_interval_ms=600_000)
        async with simulation.async_consumer(**options) as consumer:
            await consumer.subscribe(["orders", "gone"])
            await read(consumer)
            slow = simulation.network.slow
            slow.update((b.address, slow_ms) for b in simulation.cluster.brokers.values())
            await cancelled_after(after_s, consumer.unsubscribe())
            slow.clear()
            for tp in partitions:
                produce(simulation, tp, 5)
            await consumer.subscribe(["orders", "gone"])
            await read(consumer)
        for tp in partitions:
            assert simulation.cluster.committed("readers", tp) == 10

    with Simulation(1) as simulation:
        kept, gone = two_topics(simulation)
        partitions = [*kept, *gone]
        simulation.run(run(simulation))
    assert "removed this member" not in caplog.text
    assert "again:  (" not in caplog.text, "a warning that names nothing"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", sample(MODES, 1))
@pytest.mark.parametrize("automatic", [False, True])
def test_no_cancellation_around_a_rebalance_is_noticed_by_the_other_member(
    protocol: str, mode: str, automatic: bool
) -> None:
    """Slow commits and a deleted topic; each run cancels the commit or a poll one step later."""

    def slow(call: Call) -> Any:
        call.delay_ms = 300
        return call.default()

    async def run(pair: Pair, canceller: Canceller) -> None:
        await pair.start()
        pair.simulation.cluster.script(OffsetCommitRequest, *[slow] * 10_000)

        async def polls(member: Async) -> Any:
            with suppress(asyncio.CancelledError):
                return await canceller.attempt(member.poll(100))
            if not canceller.struck:
                raise asyncio.CancelledError
            return {}

        try:
            await cancelled_after(2, canceller.attempt(pair.first.commit()))
        except asyncio.CancelledError:
            assert canceller.struck
        assert await pair.join(polls) < 10
        await pair.read_on(20)
        pair.check()
        await pair.close()

    for at in takewhile(lambda at: at < LAST, bytecodes()):
        with Simulation(at) as simulation:
            canceller = Canceller(at + 1, mode)
            options = {"enable_auto_commit": automatic}
            simulation.run(run(Pair(simulation, protocol, **options), canceller))
            assert canceller.done


def poll_both(members: tuple[KafkaConsumer, ...], read: Counter[Any], rounds: int = 1) -> None:
    """Poll members one after another; one of them may be woken up."""
    for _ in range(rounds):
        for member in members:
            with suppress(WakeupError):
                for tp, records in member.poll(50).items():
                    read.update((tp, each.offset) for each in records)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize("after_ms", sample(range(700, 2_500, 100), 3))
def test_no_wakeup_around_a_rebalance_is_noticed_by_the_other_member(
    protocol: str, automatic: bool, after_ms: int
) -> None:
    with Simulation(after_ms) as simulation:
        two_topics(simulation)
        options = options_for(protocol, enable_auto_commit=automatic)
        first, other = simulation.consumer(**options), simulation.consumer(**options)
        first.subscribe(["orders", "gone"])
        read: Counter[Any] = Counter()
        while len(read) < 25:
            poll_both((first,), read)
        simulation.cluster.delete_topic("gone")
        simulation.after(after_ms, first.wakeup)
        with suppress(WakeupError, KafkaTimeoutError):
            first.commit(timeout_ms=1_000)
        other.subscribe(["orders"])
        began_ms = simulation.clock.now_ms()
        while not other.assignment():
            poll_both((first, other), read)
        assert simulation.clock.now_ms() < began_ms + 10_000
        for tp in sorted(other.assignment()):
            produce(simulation, tp, 10)
        poll_both((first, other), read, rounds=50)
        other.commit()
        poll_both((first,), read, rounds=200)
        for tp in sorted(other.assignment()):
            assert simulation.cluster.committed("readers", tp) == 15
        assert set(read.values()) == {1}
        assert len(read) == 25 + 10 * len(other.assignment())
