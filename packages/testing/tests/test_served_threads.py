"""A cluster in a thread of its own: actions from each thread, and errors that do not end it."""

from __future__ import annotations

import socket
import threading

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.fault_plan import FaultPlan, PlannedFault
from tandem_kafka_testing.served import ServedKafka
from tests.waiting import wait_until

pytestmark = pytest.mark.real_time


def test_an_action_may_act_on_the_cluster_again() -> None:
    """`on_fault` and actions run on the thread of the cluster, which cannot wait for itself."""
    with ServedKafka() as kafka:

        def act(_: SimCluster) -> int:
            kafka.create_topic("orders")
            kafka.produce("orders", b"1")
            kafka.cause("cut")
            return kafka.perform(
                lambda cluster: cluster.at(TopicPartition("orders", 0)).log.end_offset
            )

        assert kafka.perform(act) == 1


def test_an_action_may_close_the_cluster() -> None:
    kafka = ServedKafka()
    kafka.perform(lambda _: kafka.close())
    kafka.close()
    with pytest.raises(RuntimeError, match="the cluster is closed"):
        kafka.perform(lambda _: None)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_an_error_of_an_action_ends_the_action_only(error: type[BaseException]) -> None:
    def fail(_: SimCluster) -> None:
        raise error

    with ServedKafka() as kafka:
        with pytest.raises(error):
            kafka.perform(fail)
        assert kafka.create_topic("orders") == "orders"


def _act(kafka: ServedKafka, errors: list[str]) -> None:
    try:
        while True:
            kafka.perform(lambda cluster: cluster.bootstrap())
    except RuntimeError as error:
        errors.append(str(error))


def test_actions_of_several_threads_end_when_another_closes_the_cluster() -> None:
    for _ in range(20):
        kafka = ServedKafka()
        errors: list[str] = []
        threads = [threading.Thread(target=_act, args=(kafka, errors)) for _ in range(3)]
        for thread in threads:
            thread.start()
        kafka.close()
        for thread in threads:
            thread.join()
        assert errors == ["the cluster is closed"] * 3


def test_a_fault_without_its_topic_occurs_again_later() -> None:
    found: list[str] = []
    plan = FaultPlan(
        [PlannedFault("lead", at_ms=0, every_ms=20, arguments={"topic": "orders", "broker": 1})]
    )
    with ServedKafka(faults=plan, on_fault=found.append) as kafka:
        wait_until(lambda: len(found) > 2)
        assert "lead has no effect: topic='orders': the cluster has no such topic" in found[1]
        kafka.create_topic("orders")
        wait_until(
            lambda: kafka.perform(lambda cluster: cluster.topics["orders"].partitions[0].epoch) > 1
        )


def test_an_error_in_on_fault_ends_neither_the_plan_nor_the_cluster() -> None:
    found: list[str] = []

    def fail(fault: str) -> None:
        found.append(fault)
        raise ZeroDivisionError

    plan = FaultPlan([PlannedFault("reunite", at_ms=0, every_ms=20)])
    with ServedKafka(faults=plan, on_fault=fail) as kafka:
        kafka.create_topic("orders")
        with KafkaConsumer(bootstrap_servers=kafka.bootstrap) as consumer:
            assert consumer.topics() == {"orders"}
        wait_until(lambda: len(found) > 3)


def test_an_invalid_request_during_a_pause_ends_its_connection_only() -> None:
    frame = bytes.fromhex("0003 000c 00000007 ffff 00 ffffff")  # half a request
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        host, port = kafka.bootstrap.split(":")
        with socket.create_connection((host, int(port)), 10.0) as invalid:
            wait_until(lambda: kafka.perform(lambda c: len(c.network._connections)) == 1)
            kafka.perform(lambda cluster: cluster.pause(1))
            invalid.sendall(len(frame).to_bytes(4) + frame)
            wait_until(lambda: kafka.perform(lambda c: len(c.brokers[1]._postponed)) == 1)
            kafka.perform(lambda cluster: cluster.resume(1))
            invalid.settimeout(10.0)
            assert invalid.recv(1) == b""
        with KafkaConsumer(bootstrap_servers=kafka.bootstrap) as consumer:
            assert consumer.topics() == {"orders"}
