"""Faults during revocations."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from kafka.errors import FencedInstanceIdError, UnknownTopicOrPartitionError

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import (
    ConsumerClosedError,
    GroupAuthorizationFailedError,
    RebalanceCallbackError,
    UnreleasedInstanceIdError,
    WakeupError,
)
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    MetadataRequest,
    OffsetCommitRequest,
)
from tandem_kafka_testing import Call, Simulation
from tests.scenarios.numbered_records import create_topic, produce

Calls = list[tuple[str, set[TopicPartition]]]

CLASSIC = {"heartbeat_interval_ms": 500, "session_timeout_ms": 6_000}
CONSUMER = {"group_protocol": "consumer"}


class Listener:
    """Records its calls; `interruption` runs inside revoked and lost."""

    def __init__(self) -> None:
        self.calls: Calls = []
        self.interruption: Any = None

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        if partitions:
            self.calls.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self.calls.append(("revoked", partitions))
        if self.interruption is not None:
            self.interruption()

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self.calls.append(("lost", partitions))
        if self.interruption is not None:
            self.interruption()


def member_with_all(simulation: Simulation, options: dict[str, Any]) -> KafkaConsumer:
    create_topic(simulation, "orders", 4)
    member = simulation.consumer(group_id="readers", **options)
    member.subscribe(["orders"], listener=Listener())
    while len(member.assignment()) < 4:
        member.poll(500)
    return member


def listener_of(member: KafkaConsumer) -> Listener:
    found: Listener = member._parts.listener.listener
    return found


def forget(simulation: Simulation, member: KafkaConsumer) -> None:
    """The coordinator removes a member, and the member notices it."""
    member_id = member.group_metadata().member_id
    assert simulation.cluster.expel("readers", member_id)
    simulation.sleep(2_000)
    assert member.group_metadata().state == "<unjoined>"


def poll_with_another(simulation: Simulation, member: KafkaConsumer, options: Any) -> None:
    """Let another member join, so that this one must revoke partitions."""
    other = simulation.consumer("orders", group_id="readers", **options)
    while True:
        other.poll(200)
        member.poll(200)


@pytest.mark.behaviour(94, 95)
@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_every_poll_raises_an_error_that_only_the_user_can_fix(options: dict[str, Any]) -> None:
    with Simulation("fatal") as simulation:
        create_topic(simulation, "orders", 4)
        static = {"group_id": "readers", "group_instance_id": "one", **options}
        first, second = simulation.consumer(**static), simulation.consumer(**static)
        for each in (first, second):
            each.subscribe(["orders"], listener=Listener())
            for _ in range(10):
                if len(each.assignment()) < 4:
                    with contextlib.suppress(UnreleasedInstanceIdError):
                        each.poll(500)
        simulation.sleep(2_000)
        refused = second if options is CONSUMER else first
        lengths: list[int] = []
        for timeout_ms in (200, 0, 0, 50, 3_000, 0):
            with pytest.raises((FencedInstanceIdError, UnreleasedInstanceIdError)) as caught:
                refused.poll(timeout_ms)
            lengths.append(len(caught.traceback))
        assert len(set(lengths[1:])) == 1, "the traceback grows"
        refused.unsubscribe()
        refused.subscribe(["orders"])
        refused.poll(0)


@pytest.mark.behaviour(104)
@pytest.mark.design("003", "Poll")
@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_revoked_partitions_are_not_also_lost_in_close(options: dict[str, Any]) -> None:
    with Simulation("interrupted") as simulation:
        member = member_with_all(simulation, options)
        listener = listener_of(member)

        def interrupted() -> None:
            forget(simulation, member)
            member.wakeup()
            member.position(next(iter(member.assignment())))

        listener.interruption = interrupted
        with pytest.raises(WakeupError):
            poll_with_another(simulation, member, options)
        member.close()
        check(listener.calls, {"lost"} if options is CONSUMER else set())


@pytest.mark.behaviour(104, 115)
@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
@pytest.mark.parametrize("fenced", [True, False])
def test_close_during_a_revocation_reports_only_the_rest(
    options: dict[str, Any], fenced: bool
) -> None:
    with Simulation("closed") as simulation:
        member = member_with_all(simulation, options)
        listener = listener_of(member)

        def close() -> None:
            listener.interruption = None
            if fenced:
                forget(simulation, member)
            member.close()

        listener.interruption = close
        with pytest.raises(ConsumerClosedError):
            poll_with_another(simulation, member, options)
        rest = {"lost"} if fenced else {"revoked"}
        check(listener.calls, rest if options is CONSUMER else set())


@pytest.mark.behaviour(100, 101)
@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
@pytest.mark.parametrize("end", ["unsubscribe", "close"])
@pytest.mark.parametrize("how", ["lost", "revoked"])
def test_a_listener_that_ends_the_membership_is_called_once(
    options: dict[str, Any], end: str, how: str
) -> None:
    with Simulation("ended by the listener") as simulation:
        member = member_with_all(simulation, options)
        listener = listener_of(member)

        def leave() -> None:
            assert len(listener.calls) < 5, "no end to it"
            getattr(member, end)()

        listener.interruption = leave
        if how == "lost":
            forget(simulation, member)
            with contextlib.suppress(ConsumerClosedError):
                member.poll(500)
        else:
            member.unsubscribe()
        assert [what for what, _ in listener.calls] == ["assigned", how]
        if end == "unsubscribe":
            # A new membership begins, with new listener calls.
            listener.interruption = None
            member.subscribe(["orders"], listener=listener)
            while len(member.assignment()) < 4:
                member.poll(500)
        member.close()
        more = ["assigned", "revoked"] if end == "unsubscribe" else []
        assert [what for what, _ in listener.calls[2:]] == more


@pytest.mark.behaviour(81)
def test_a_topic_briefly_unknown_to_a_broker_causes_no_revocation() -> None:
    with Simulation("lagging") as simulation:
        create_topic(simulation, "more", 2)
        member = member_with_all(simulation, {**CONSUMER, "metadata_max_age_ms": 1_000})
        listener = listener_of(member)
        member.subscribe(["orders", "more"], listener=listener)
        while len(member.assignment()) < 6:
            member.poll(200)
        listener.calls.clear()

        def lag(call: Call) -> Any:
            answer = call.default()
            for described in answer.topics:
                if described.name == "orders":
                    described.error_code = UnknownTopicOrPartitionError.errno
                    described.partitions = []
            return answer

        simulation.cluster.script(MetadataRequest, *[lag] * 6)
        simulation.sleep(1_000)
        simulation.cluster.add_partitions("more", 3)
        while len(member.assignment()) < 7:
            member.poll(100)
        assert listener.calls == [("assigned", {TopicPartition("more", 2)})]


@pytest.mark.behaviour(104)
@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
@pytest.mark.parametrize("polled", [True, False])
@pytest.mark.parametrize("end", ["unsubscribe", "close"])
def test_partitions_of_a_fenced_static_member_are_lost(
    options: dict[str, Any], polled: bool, end: str
) -> None:
    with Simulation("fenced instance") as simulation:
        member = member_with_all(simulation, {**options, "group_instance_id": "a"})
        listener = listener_of(member)

        def fence(call: Call) -> Any:
            answer = call.default()
            answer.error_code = FencedInstanceIdError.errno
            return answer

        heartbeat = ConsumerGroupHeartbeatRequest if options is CONSUMER else HeartbeatRequest
        simulation.cluster.script(heartbeat, fence)
        simulation.sleep(8_000)
        if polled:
            with pytest.raises(FencedInstanceIdError):
                member.poll(500)
        getattr(member, end)()
        assert [what for what, _ in listener.calls] == ["assigned", "lost"]


def check(calls: Calls, rest: set[str]) -> None:
    """Check the calls: all assigned, some revoked, and the rest as expected."""
    (first, everything), (second, given_back), *others = calls
    assert (first, second) == ("assigned", "revoked")
    assert {what for what, _ in others} == rest
    reported = [tp for _, partitions in (calls[1], *others) for tp in partitions]
    assert sorted(reported) == sorted(everything), "each once"
    assert bool(rest) == (given_back < everything)


@pytest.mark.behaviour(71)
@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_subscribing_again_hands_out_no_revoked_records(
    options: dict[str, Any],
) -> None:
    with Simulation("subscribed again") as simulation:
        member = member_with_all(simulation, {**options, "auto_offset_reset": "earliest"})
        listener = listener_of(member)

        def refuse() -> None:
            msg = "not yet"
            raise ValueError(msg)

        listener.interruption = refuse
        with pytest.raises(RebalanceCallbackError):
            poll_with_another(simulation, member, options)
        _, revoked = listener.calls[-1]
        for number in range(4):
            produce(simulation, TopicPartition("orders", number), 3)
        read: set[TopicPartition] = set()
        for _ in range(20):
            member.subscribe(["orders"], listener=listener)
            with contextlib.suppress(RebalanceCallbackError):
                read |= member.poll(0).keys()
            simulation.sleep(50)
        listener.interruption = None
        assert not read & revoked
        assert {what for what, _ in listener.calls[1:]} == {"revoked"}, "asked for again and again"


@pytest.mark.behaviour(73)
@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_a_failed_commit_does_not_stop_a_revocation(options: dict[str, Any]) -> None:
    with Simulation("refused") as simulation:
        options = {**options, "enable_auto_commit": True, "auto_commit_interval_ms": 600_000}
        member = member_with_all(simulation, options)
        produce(simulation, TopicPartition("orders", 0), 3)
        while not member.poll(500):
            pass
        refused: list[Call] = []

        def refuse(call: Call) -> Any:
            refused.append(call)
            answer = call.default()
            for entry in answer.topics[0].partitions:
                entry.error_code = GroupAuthorizationFailedError.errno
            return answer

        simulation.cluster.script(OffsetCommitRequest, refuse)
        other = simulation.consumer("orders", group_id="readers", **options)
        while len(other.assignment()) < 2:
            other.poll(200)
            member.poll(200)
        assert refused, "the commit was tried"
        kinds = [what for what, _ in listener_of(member).calls]
        assert kinds[:2] == ["assigned", "revoked"]
        assert len(member.assignment()) == 2
