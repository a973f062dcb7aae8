"""Metrics and health of share consumers."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from tandem_kafka import ShareConsumer
from tandem_kafka.errors import RecordLockLostError
from tandem_kafka.observability import Probe
from tests.simulation.sharing import LOCK_MS, TP, sharing, take, take_ahead

FETCH = "consumer-share-fetch-manager-metrics"
COUNTED = (
    "records-fetched",
    "records-accepted",
    "records-released",
    "records-rejected",
    "locks-renewed",
    "locks-lost",
    "acknowledgements-send",
    "acknowledgements-error",
)


def counts(consumer: ShareConsumer[Any, Any]) -> dict[str, float]:
    """Return the totals that are not 0."""
    values = consumer.metrics()[FETCH]
    totals = {name: values[f"{name}-total"] for name in COUNTED}
    return {name: value for name, value in totals.items() if value}


def test_each_acknowledgement_is_counted_once_it_is_stored() -> None:
    with sharing("counted", count=4) as (simulation, start):
        consumer = start()
        accepted, released, rejected, renewed = take(consumer, 4)
        assert counts(consumer) == {"records-fetched": 4}
        values = consumer.metrics()[FETCH]
        assert (values["records-waiting"], values["records-in-work"]) == (0, 4)
        renewed.renew()
        simulation.sleep(2_000)
        accepted.accept()
        released.release()
        rejected.reject()
        consumer.commit()
        assert counts(consumer) == {
            "records-fetched": 4,
            "records-accepted": 1,
            "records-released": 1,
            "records-rejected": 1,
            "locks-renewed": 1,
            "acknowledgements-send": 3,
        }
        values = consumer.metrics()[FETCH]
        assert 2_000 <= values["record-held-time-avg"] <= values["record-held-time-max"] < 2_100
        assert values["fetch-size-max"] > values["records-in-work"] == 1
        group = consumer.metrics()["consumer-share-coordinator-metrics"]
        assert group["assigned-partitions"] == 1
        assert group["rebalance-total"] >= 1


def test_records_whose_locks_ended_are_counted_once() -> None:
    with sharing("ended", count=4) as (simulation, start):
        explicit = start()
        first, *_ = take(explicit, 4)
        first.accept()
        explicit.commit()
        simulation.sleep(LOCK_MS + 1_000)
        with pytest.raises(RecordLockLostError):
            _[0].accept()
        explicit.commit()
        assert counts(explicit)["locks-lost"] == 3
        explicit.close()
        implicit = start("implicit")
        assert len(take(implicit, 3)) == 3
        simulation.sleep(LOCK_MS + 1_000)
        take(implicit, 3)
        assert isinstance(implicit.commit()[TP], RecordLockLostError)
        assert counts(implicit)["locks-lost"] == 3


def test_what_a_broker_does_not_store_is_counted() -> None:
    with sharing("not stored") as (simulation, start):
        consumer = start()
        records = take(consumer, 3)
        simulation.sleep(1_000)
        simulation.network.alter_response = lambda frame: frame[:10]
        records[0].accept()
        assert isinstance(consumer.commit()[TP], Exception)
        simulation.network.alter_response = None
        simulation.sleep(1_000)
        assert counts(consumer)["acknowledgements-error"] == 1
        assert counts(consumer)["locks-lost"] == 3


def test_unused_records_are_counted_as_released() -> None:
    with sharing("unused", brokers=1, count=100) as (simulation, start):
        simulation.cluster.configure_group("g", share_renew_acknowledge_enable=False)
        consumer = start("implicit")
        _, waiting = take_ahead(simulation, consumer)
        simulation.sleep(LOCK_MS * 3 // 4 + 1_000)
        assert counts(consumer)["records-released"] == waiting
        assert "locks-lost" not in counts(consumer)


def test_what_waits_is_renewed_and_counted() -> None:
    with sharing("kept", brokers=1, count=100) as (simulation, start):
        consumer = start("implicit")
        _, waiting = take_ahead(simulation, consumer)
        simulation.sleep(LOCK_MS * 3 // 4)
        assert counts(consumer)["locks-renewed"] == waiting
        assert "records-released" not in counts(consumer)


def test_health_says_what_the_member_waits_for() -> None:
    with sharing("health", partitions=2) as (simulation, start):
        consumer = start()
        assert not consumer.health().ready
        records = take(consumer, 3)
        health = consumer.health()
        assert health.ready
        assert list(health.partitions) == [TP, TP._replace(partition=1)]
        assert health.fetch_ms is not None
        assert health.commit_ms is None
        assert all(each.stuck is None for each in health.partitions.values())
        assert health.troubles == ()
        records[0].accept()
        consumer.commit()
        assert consumer.health().commit_ms is not None
        simulation.cluster.stop(2, elect=False)
        simulation.sleep(10_000)
        stuck = consumer.health().partitions[TP._replace(partition=1)].stuck
        assert stuck in ("it has no leader", "its leader, broker 2, cannot be used")
        consumer.unsubscribe()
        assert "there is no subscription" in consumer.health().not_ready[-1]
        consumer.close()
        assert not consumer.health().alive


def test_a_member_without_partitions_says_so() -> None:
    with sharing("no topic") as (_, start):
        consumer = start()
        consumer.subscribe(["missing"])
        consumer.poll(3_000)
        assert "has assigned no partition of 'g'" in " ".join(consumer.health().troubles)


def test_prometheus_tells_share_consumers_from_others() -> None:
    pytest.importorskip("prometheus_client")
    from tandem_kafka.observability import ConsumerCollector

    with sharing("prometheus") as (_, start):
        consumer = start()
        take(consumer, 3)
        found = {family.name: family for family in ConsumerCollector(consumer).collect()}
        assert found["kafka_consumer_share_records_fetched"].samples[0].value == 3
        assert all(name.startswith("kafka_") for name in found)
        assert "kafka_consumer_share_node_request_rate" in found


def test_a_probe_answers_for_a_share_consumer() -> None:
    with sharing("probe") as (_, start):
        consumer = start()
        take(consumer, 3)
        with Probe(consumer, port=0) as probe:
            with urllib.request.urlopen(f"http://127.0.0.1:{probe.port}/ready") as response:
                assert response.status == 200
            with urllib.request.urlopen(f"http://127.0.0.1:{probe.port}/") as response:
                assert response.status == 200
