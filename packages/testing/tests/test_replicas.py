"""Replicas of a simulated partition: racks, in-sync replicas, offsets."""

from __future__ import annotations

import pytest

from packages.testing.tests.bare_client import Client, fetch, fetched
from tandem_kafka import TopicPartition
from tandem_kafka.wire.messages import FetchRequest, FetchResponse
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster import SimCluster

TP = TopicPartition("orders", 0)
NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE = 6, 1


def cluster_of(brokers: int, **more: object) -> SimCluster:
    cluster = Simulation(brokers=brokers, **more).cluster
    cluster.create_topic("orders")
    return cluster


def test_brokers_are_spread_over_the_racks() -> None:
    racks = [broker.rack for broker in cluster_of(3, racks=["a", "b"]).brokers.values()]
    assert racks == ["a", "b", "a"]
    assert cluster_of(1).brokers[1].rack is None


def test_a_topic_has_the_requested_number_of_replicas() -> None:
    cluster = cluster_of(3)
    cluster.create_topic("two", 3, replicas=2)
    found = [partition.replicas for partition in cluster.topics["two"].partitions]
    assert found == [(1, 2), (2, 3), (3, 1)]
    with pytest.raises(ValueError, match="replicas=4: must be from 1 to 3"):
        cluster.create_topic("four", replicas=4)


def test_a_replica_that_is_down_or_lagging_is_not_in_sync() -> None:
    cluster = cluster_of(3)
    partition = cluster.at(TP)
    cluster.produce(TP, b"a")
    cluster.fall_behind(TP, 2)
    cluster.stop(3)
    cluster.produce(TP, b"b")
    assert cluster.in_sync(partition) == [1]
    assert (partition.end_at(1), partition.end_at(2)) == (2, 1)
    cluster.catch_up(TP, 2)
    assert cluster.in_sync(partition) == [1, 2]
    assert partition.end_at(2) == 2


@pytest.mark.parametrize("node_id", [1, 3])
def test_only_a_follower_falls_behind(node_id: int) -> None:
    cluster = cluster_of(3)
    cluster.create_topic("two", 1, replicas=2)
    with pytest.raises(ValueError, match=f"broker {node_id} is not a follower of two-0"):
        cluster.fall_behind(TopicPartition("two", 0), node_id)


def test_a_follower_serves_fetches_with_a_rack() -> None:
    with Simulation(brokers=2) as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders")
        cluster.produce(TP, b"a")
        cluster.move_leader(TP, 2)  # broker 1, which gets the fetch, is the follower
        client = Client(simulation)

        def ask(version: int) -> FetchResponse:
            return (
                fetched(client.say(fetch(simulation), version), version).responses[0].partitions[0]
            )

        assert ask(10).error_code == NOT_LEADER_OR_FOLLOWER
        assert ask(11).records
        cluster.fall_behind(TP, 1)
        cluster.produce(TP, b"b")
        assert (ask(11).high_watermark, ask(11).last_stable_offset) == (1, 1)


def test_offsets_that_a_follower_lacks_are_out_of_range() -> None:
    with Simulation(brokers=2) as simulation:
        cluster = simulation.cluster
        cluster.create_topic("orders")
        cluster.produce(TP, b"a")
        cluster.move_leader(TP, 2)
        cluster.fall_behind(TP, 1)
        cluster.produce(TP, b"b")
        request: FetchRequest = fetch(simulation)
        request.topics[0].partitions[0].fetch_offset = 2
        (entry,) = fetched(Client(simulation).say(request, 11), 11).responses[0].partitions
        assert entry.error_code == OFFSET_OUT_OF_RANGE
        assert (entry.high_watermark, entry.log_start_offset) == (-1, -1), "beside an error"
