"""A member that lost its membership does not set back commits of other members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import UnknownMemberIdError

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import CommitFailedError, KafkaError
from tandem_kafka.wire.messages import JoinGroupRequest, OffsetCommitRequest
from tandem_kafka_testing import Call, Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.readers import OPTIONS, Listener, Readers, filled
from tests.simulation.sharing import counted
from tests.tier import seeds

CONSUMER = {"group_protocol": "consumer"}
BOTH = pytest.mark.parametrize("protocol", [{}, CONSUMER], ids=["classic", "consumer"])


def overtaken(simulation: Simulation, **options: Any) -> tuple[KafkaConsumer, TopicPartition]:
    """A silent member has read 20 records. Another one has read and committed 30, and left.

    The group is empty and thus accepts commits without membership.
    """
    readers = Readers(simulation, filled(simulation, partitions=1))
    (tp,) = readers.partitions
    late = readers.join(Listener(), max_poll_interval_ms=8_000, **options)
    readers.settle()
    readers.members.remove(late)
    simulation.sleep(10_000)
    produce(simulation, tp, 10)
    other = readers.join(**{**options, "enable_auto_commit": True})
    readers.settle()
    other.close()
    assert simulation.cluster.committed("readers", tp) == 30
    return late, tp


def polls(member: KafkaConsumer) -> None:
    member.poll(0)


def closes(member: KafkaConsumer) -> None:
    member.close()


def unsubscribes(member: KafkaConsumer) -> None:
    member.unsubscribe()


@BOTH
@pytest.mark.parametrize("act", [polls, closes, unsubscribes])
def test_a_removed_member_does_not_auto_commit(protocol: Any, act: Callable[[Any], None]) -> None:
    with Simulation() as simulation:
        late, tp = overtaken(simulation, **protocol)
        act(late)
        simulation.sleep(1_000)
        assert simulation.cluster.committed("readers", tp) == 30


@BOTH
@pytest.mark.parametrize("named", [False, True], ids=["positions", "named offsets"])
def test_a_commit_of_lost_partitions_fails(protocol: Any, named: bool) -> None:
    with Simulation() as simulation:
        late, tp = overtaken(simulation, enable_auto_commit=False, **protocol)
        offsets = {tp: OffsetAndMetadata(20, "", -1)} if named else None
        with pytest.raises(CommitFailedError, match="orders-0"):
            late.commit(offsets)
        failed: list[Any] = []
        late.commit_async(offsets, callback=lambda _, error: failed.append(error))
        late.poll(100)
        assert [type(error) for error in failed] == [CommitFailedError]
        assert simulation.cluster.committed("readers", tp) == 30


@BOTH
def test_a_commit_that_outlives_its_membership_fails(protocol: Any) -> None:
    with Simulation(brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation, partitions=1))
        (tp,) = readers.partitions
        member = readers.join(max_poll_interval_ms=8_000, enable_auto_commit=False, **protocol)
        readers.settle()
        identity = member.group_metadata().member_id
        simulation.cluster.stop(1)  # it coordinates the group
        simulation.sleep(1_000)
        failed: list[Any] = []
        member.commit_async(callback=lambda _, error: failed.append(error))
        simulation.sleep(20_000)
        assert not failed
        # Otherwise its session would restart, and the commit would be valid.
        assert simulation.cluster.expel("readers", identity)
        simulation.cluster.start(1)
        simulation.sleep(20_000)
        member.poll(0)
        assert [type(error) for error in failed] == [CommitFailedError]
        assert simulation.cluster.committed("readers", tp) is None


@BOTH
def test_a_consumer_without_membership_may_commit_into_an_empty_group(protocol: Any) -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation, partitions=1))
        (tp,) = readers.partitions
        member = readers.join(enable_auto_commit=False, **protocol)
        member.commit({tp: OffsetAndMetadata(3, "", -1)})
        assert simulation.cluster.committed("readers", tp) == 3
        readers.poll(10)
        assert min(offset for _, offset in readers.read) == 3
        member.unsubscribe()
        member.commit({tp: OffsetAndMetadata(7, "", -1)})
        assert simulation.cluster.committed("readers", tp) == 7


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_a_rejected_commit_ends_the_membership_and_the_records(protocol: Any, seed: int) -> None:
    """The process was stopped for longer than its session timeout, with records buffered."""
    with Simulation(f"refused {seed}", trace_lines=None) as simulation:
        readers = Readers(simulation, filled(simulation, partitions=2))
        listener = Listener()
        member = readers.join(listener, enable_auto_commit=False, max_poll_records=1, **protocol)
        readers.settle()
        member.commit()
        for tp in readers.partitions:
            produce(simulation, tp, 50)
        simulation.sleep(300)
        identity = member.group_metadata().member_id
        assert simulation.cluster.expel("readers", identity)
        refused = False
        while not refused:
            assert member.poll(0), "it is read ahead"
            try:
                member.commit()
            except CommitFailedError:
                refused = True
        assert not member.poll(0)
        assert not member.poll(0)
        readers.settle()
        assert any(what == "lost" for what, _ in listener.calls)


@pytest.mark.parametrize("seed", seeds(8, 30))
def test_a_member_id_that_comes_late_does_not_block_the_group(seed: int) -> None:
    """The subscription changes while JoinGroup is in flight."""

    def late(call: Call) -> Any:
        call.delay_ms = simulation.random.randrange(120)
        return call.default()

    with Simulation(f"late member ids {seed}") as simulation:
        tps = create_topic(simulation, "orders", 2)
        options = {**OPTIONS, "session_timeout_ms": 20_000}
        other = simulation.consumer("orders", **options)
        while len(other.assignment()) < 2:
            other.poll(100)
        simulation.cluster.script(JoinGroupRequest, *[late] * 1_000)
        consumer = simulation.consumer(**options)
        for _ in range(60):
            match simulation.random.randrange(3):
                case 0:
                    consumer.subscribe(["orders"])
                case 1:
                    consumer.unsubscribe()
                case _ if consumer.subscription():
                    consumer.poll(simulation.random.randrange(100))
            other.poll(0)
        consumer.subscribe(["orders"])
        begin_ms = simulation.clock.now_ms()
        while {*consumer.assignment(), *other.assignment()} != {*tps} or not consumer.assignment():
            consumer.poll(100)
            other.poll(100)
        assert simulation.clock.now_ms() - begin_ms < 8_000


@pytest.mark.parametrize("delay_ms", [1, 50, 600, 5_000])
def test_a_consumer_that_closes_while_it_joins_does_not_block_the_group(delay_ms: int) -> None:
    """The coordinator had waited for the member id that it gave until the session was over."""

    def late(call: Call) -> Any:
        call.delay_ms = delay_ms
        return call.default()

    with Simulation(f"closes while it joins {delay_ms}") as simulation:
        create_topic(simulation, "orders", 2)
        options = {**OPTIONS, "session_timeout_ms": 20_000}
        other = simulation.consumer("orders", **options)
        while len(other.assignment()) < 2:
            other.poll(100)
        before = counted(simulation, JoinGroupRequest)
        simulation.cluster.script(JoinGroupRequest, late)
        consumer = simulation.consumer("orders", **options)
        while counted(simulation, JoinGroupRequest) == before:
            consumer.poll(1)
        begin_ms = simulation.clock.now_ms()
        consumer.close()
        closed_ms = simulation.clock.now_ms()
        assert closed_ms - begin_ms < min(delay_ms, 1_000) + 100
        if delay_ms > 1_000:  # it does not wait for a coordinator that does not respond
            return
        consumer = simulation.consumer("orders", **options)
        while len(consumer.assignment()) != 1 or len(other.assignment()) != 1:
            consumer.poll(100)
            other.poll(100)
        assert simulation.clock.now_ms() - closed_ms < 5_000


@BOTH
def test_a_member_that_is_removed_by_each_commit_joins_after_a_pause(
    protocol: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It had joined again at once each time, and had logged each removal."""

    removed = []

    def refuse(call: Call) -> Any:
        removed.append(call.request.member_id)
        simulation.cluster.expel("readers", call.request.member_id)
        response = call.default()
        for each in response.topics:
            for part in each.partitions:
                part.error_code = UnknownMemberIdError.errno
        return response

    with Simulation(f"removed by each commit {protocol}") as simulation:
        (tp,) = create_topic(simulation, "orders", 1)
        simulation.cluster.script(OffsetCommitRequest, *[refuse] * 10_000)
        consumer = simulation.consumer("orders", group_id="readers", **protocol)
        while simulation.clock.now_ms() < 60_000:
            try:
                consumer.poll(10)
                if consumer.assignment():
                    consumer.commit({tp: OffsetAndMetadata(0)})
            except KafkaError:
                simulation.sleep(1)
        assert all(removed)
        assert 30 <= len(removed) <= 150
        warnings = [line for line in caplog.messages if "removed this member" in line]
        assert 1 <= len(warnings) <= 4
