"""Displaced members: they do not set back commits, and close without delay."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import FencedInstanceIdError, KafkaError
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest
from tandem_kafka_testing import Call, Simulation
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)


def read_to(consumer: KafkaConsumer, offset: int) -> None:
    while not consumer.assignment() or consumer.position(TP) < offset:
        consumer.poll(200, max_records=1)


def member_at_20(simulation: Simulation, **options: Any) -> KafkaConsumer:
    """A member that has read all 20 records."""
    create_topic(simulation, "orders", 1)
    produce(simulation, TP, 20)
    member = simulation.consumer(
        "orders", group_id="readers", auto_offset_reset="earliest", **options
    )
    read_to(member, 20)
    return member


@pytest.mark.parametrize("way", ["close", "commit", "poll"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_displaced_static_member_does_not_set_commits_back(way: str, empty: bool) -> None:
    """An empty group accepts a commit without a generation."""
    with Simulation("displaced") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 50)
        options = {
            "group_id": "readers",
            "group_instance_id": "one",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": True,
            "auto_commit_interval_ms": 1_000,
        }
        displaced = simulation.consumer("orders", **options)
        read_to(displaced, 10)
        other = simulation.consumer("orders", **options)
        for _ in range(20):
            other.poll(500)
            with contextlib.suppress(FencedInstanceIdError):
                displaced.poll(0, max_records=1)
        assert other.position(TP) == 50
        if empty:
            other.close(leave_group="leave")
        else:
            other.commit()
        if way == "close":
            displaced.close()
        elif way == "commit":
            with pytest.raises(KafkaError):
                displaced.commit({TP: OffsetAndMetadata(7)})
        else:
            for _ in range(5):
                taken = "another member of the group 'readers' has taken over group_instance_id="
                with pytest.raises(FencedInstanceIdError, match=taken):
                    displaced.poll(200)
                simulation.sleep(1_500)
        simulation.sleep(2_000)
        assert simulation.cluster.committed("readers", TP) == 50


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_transactional_commit_for_an_expelled_member_is_rejected(protocol: str) -> None:
    """Also before the call of its listener, and in an empty group: it sends its former id."""
    with Simulation("fenced") as simulation:
        session = {"heartbeat_interval_ms": 500} if protocol == "classic" else {}
        options = {"group_protocol": protocol, "enable_auto_commit": False, **session}
        member = member_at_20(simulation, **options)
        was = member.group_metadata()

        def commit() -> Any:
            name = member.group_metadata()
            return simulation.cluster.commit_in_transaction(
                "readers", 7, {TP: 20}, name.member_id, name.generation_id
            )

        assert commit() is None
        simulation.cluster.end_transaction("readers", 7, commit=False)
        simulation.cluster.expel("readers", was.member_id)
        simulation.sleep(6_000)
        assert member.group_metadata() == was._replace(state="<unjoined>")
        assert commit() is not None
        while member.group_metadata().state == "<unjoined>":
            member.poll(200)
        assert commit() is None
        member.unsubscribe()
        assert member.group_metadata() == ("readers", -1, "", None, "<unjoined>")


@pytest.mark.parametrize("code", [42, 82, 112], ids=["invalid", "fenced-instance", "assignor"])
def test_close_after_a_fatal_error_does_not_wait_for_a_commit(code: int) -> None:
    with Simulation("fatal") as simulation:
        options = {"group_protocol": "consumer", "auto_commit_interval_ms": 60_000}
        member = member_at_20(simulation, **options)

        def refused(call: Call) -> object:
            answer = call.default()
            answer.error_code = code
            return answer

        simulation.cluster.script(ConsumerGroupHeartbeatRequest, refused)
        simulation.sleep(6_000)
        began_ms = simulation.clock.now_ms()
        member.close()
        assert simulation.clock.now_ms() - began_ms < 1_000
        assert simulation.cluster.committed("readers", TP) == 20
