"""Requests of transactional producers: repeated ones, timeouts, and the last epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors
from kafka.protocol.producer import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
)

from packages.testing.tests.bare_client import Client
from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation

TP = TopicPartition("orders", 0)
FENCED = errors.ProducerFencedError.errno
TIMEOUT_MS = 5_000


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation() as created:
        created.cluster.create_topic("orders")
        yield created


@pytest.fixture
def client(simulation: Simulation) -> Client:
    return Client(simulation)


def initialize(client: Client, producer_id: int = -1, epoch: int = -1) -> Any:
    request = InitProducerIdRequest(
        transactional_id="tx",
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    frame = client.say(request, 5)
    assert frame is not None
    return InitProducerIdResponse.decode(frame[5:], version=5)


def write(simulation: Simulation, producer: Any) -> None:
    """A record in the transaction of a producer, which it begins."""
    cluster = simulation.cluster
    cluster.transactions.add(cluster.transactions.producers["tx"], [TP])
    cluster.produce(TP, b"1", producer_id=producer.producer_id)


def end(client: Client, producer: Any, *, commit: bool = True, version: int = 5) -> Any:
    request = EndTxnRequest(
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
    frame = client.say(request, version)
    assert frame is not None
    return EndTxnResponse.decode(frame[5:], version=version)


def aborted(simulation: Simulation) -> int:
    log = simulation.cluster.at(TP).log
    return len(log.aborted_among(0, log.read(0, 100_000)))


def test_a_commit_after_the_timeout_does_not_succeed(
    simulation: Simulation, client: Client
) -> None:
    """The timeout has aborted the records, and has begun an epoch as a commit does."""
    producer = initialize(client)
    write(simulation, producer)
    producer = end(client, producer)
    simulation.sleep(TIMEOUT_MS // 2)
    write(simulation, producer)
    simulation.sleep(TIMEOUT_MS // 2 + 1)
    assert aborted(simulation) == 0, "the timeout was that of an ended transaction"
    simulation.sleep(TIMEOUT_MS // 2)
    assert aborted(simulation) == 1
    assert end(client, producer).error_code == FENCED


def test_a_commit_of_a_producer_that_was_replaced_does_not_succeed(
    simulation: Simulation, client: Client
) -> None:
    producer = initialize(client)
    write(simulation, producer)
    initialize(client)
    assert aborted(simulation) == 1
    assert end(client, producer).error_code == FENCED


def test_a_repeated_end_has_the_same_result_and_only_that(
    simulation: Simulation, client: Client
) -> None:
    producer = initialize(client)
    write(simulation, producer)
    first, again = end(client, producer), end(client, producer)
    assert (first.error_code, first.producer_epoch) == (0, producer.producer_epoch + 1)
    assert (again.error_code, again.producer_epoch) == (0, first.producer_epoch)
    assert end(client, producer, commit=False).error_code == FENCED
    assert aborted(simulation) == 0


def test_a_repeated_request_for_an_epoch_gets_the_same_epoch(client: Client) -> None:
    old = initialize(client)
    first = initialize(client, old.producer_id, old.producer_epoch)
    again = initialize(client, old.producer_id, old.producer_epoch)
    assert first.producer_epoch == old.producer_epoch + 1
    assert (again.error_code, again.producer_epoch) == (0, first.producer_epoch)
    initialize(client)
    assert initialize(client, old.producer_id, old.producer_epoch).error_code == FENCED


@pytest.mark.parametrize("by", ["a transaction", "an initialization"])
def test_behind_the_last_epoch_a_producer_gets_another_id(
    simulation: Simulation, client: Client, by: str
) -> None:
    old = initialize(client)
    simulation.cluster.transactions.producers["tx"].epoch = old.producer_epoch = 2**15 - 2
    write(simulation, old)
    new = end(client, old) if by == "a transaction" else initialize(client)
    assert (new.error_code, new.producer_epoch) == (0, 0)
    assert new.producer_id != old.producer_id
    log = simulation.cluster.at(TP).log
    assert log.last_stable_offset == log.end_offset == 2
    new.producer_epoch = 0
    write(simulation, new)
    assert end(client, new).error_code == 0
    assert log.last_stable_offset == log.end_offset == 4


def test_a_timeout_in_the_last_epoch_leaves_no_open_transaction(
    simulation: Simulation, client: Client
) -> None:
    old = initialize(client)
    simulation.cluster.transactions.producers["tx"].epoch = 2**15 - 2
    write(simulation, old)
    simulation.sleep(TIMEOUT_MS + 1)
    log = simulation.cluster.at(TP).log
    assert log.last_stable_offset == log.end_offset == 2
    assert initialize(client).producer_epoch == 0


def test_a_commit_in_a_transaction_keeps_leader_epoch_and_metadata(
    simulation: Simulation, client: Client
) -> None:
    producer = initialize(client)
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition
    wanted = partition(
        partition_index=0,
        committed_offset=3,
        committed_leader_epoch=2,
        committed_metadata="row 7",
    )
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="readers",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="orders", partitions=[wanted])
        ],
    )
    assert client.say(request, 5) is not None
    assert end(client, producer).error_code == 0
    stored = simulation.cluster.coordination.of("readers").offsets.committed[TP]
    assert (stored.offset, stored.leader_epoch, stored.metadata) == (3, 2, "row 7")
    assert simulation.cluster.commit_log == [(TP, (3, 2, "row 7"), "")]
