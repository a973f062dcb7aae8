"""Locks of a share group that are renewed, by `renew()` or by the consumer itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tandem_kafka.errors import (
    KafkaError,
    RecordLockLostError,
    UnsupportedVersionError,
)
from tandem_kafka.wire.messages import ShareAcknowledgeRequest
from tandem_kafka_testing.cluster.releases import RELEASES
from tests.simulation.sharing import (
    LOCK_MS,
    TP,
    places,
    session_of,
    sharing,
    take,
)


def test_a_handler_whose_locks_are_renewed_is_slower_than_the_poll_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with sharing("slower", brokers=1) as (simulation, start):
        consumer = start(max_poll_interval_ms=20_000)
        consumer.renew_locks(60_000)
        first, *_ = take(consumer, 3)
        simulation.sleep(50_000)
        assert first.is_locked
        assert "leaves the group" not in caplog.text
        first.accept()
        assert consumer.commit() == {TP: None}
        simulation.sleep(20_000)  # of the others for too long
        assert "leaves the group" in caplog.text


def test_commit_tells_that_a_lock_was_renewed() -> None:
    with sharing("renewed") as (_, start):
        consumer = start()
        record, *_ = take(consumer, 3)
        before = record.lock_deadline_ms
        record.renew()
        assert consumer.commit() == {TP: None}
        assert record.lock_deadline_ms > before
        assert consumer.commit() == {}


@pytest.mark.parametrize("polls", [True, False])
def test_what_took_longer_than_its_first_lock_is_accepted_while_the_consumer_polls(
    *, polls: bool
) -> None:
    """It was delivered again if the answer to a fetch came before the acceptance was sent."""
    with sharing("longer", brokers=1, count=1) as (simulation, start):
        consumer = start(renew="auto")
        [record] = take(consumer, 1)
        if polls:
            simulation.after(LOCK_MS + 5_000, record.accept)
            consumer.poll(LOCK_MS + 6_000)
        else:
            simulation.sleep(LOCK_MS + 5_000)
            record.accept()
        assert consumer.commit() == {TP: None}
        assert start().poll(2 * LOCK_MS) == {}


def test_records_of_a_poll_are_renewed_one_after_the_other() -> None:
    """The second was lost when the lock of the first had ended."""
    with sharing("one by one", brokers=1, count=2) as (simulation, start):
        consumer = start()
        first, second = take(consumer, 2)
        for record in (first, second):
            simulation.sleep(LOCK_MS // 2 - 1_000)
            record.renew()
            assert consumer.commit() == {TP: None}
        assert places(take(consumer, 1)) == [(0, 2)]
        with pytest.raises(RecordLockLostError):
            first.accept()
        second.accept()
        assert consumer.commit() == {TP: None}


def test_commit_tells_that_a_lock_was_not_renewed(caplog: pytest.LogCaptureFixture) -> None:
    with sharing("refused") as (simulation, start):
        simulation.cluster.configure_group("g", share_renew_acknowledge_enable=False)
        consumer = start()
        first, second, _ = take(consumer, 3)
        first.renew()
        second.accept()
        assert isinstance(consumer.commit()[TP], KafkaError)
        assert caplog.text.count("locks of orders-0 were not renewed") == 1
        first.accept()
        assert consumer.commit() == {TP: None}


def test_commit_tells_that_the_broker_does_not_know_the_lock_to_renew() -> None:
    with sharing("unknown lock") as (simulation, start):
        consumer = start()
        record, *_ = take(consumer, 3)
        simulation.cluster.brokers[1].share_sessions.clear()
        record.renew()
        assert isinstance(consumer.commit()[TP], KafkaError)


def test_commit_tells_that_a_record_was_locked_again_before_it_was_renewed() -> None:
    """It said nothing of it."""
    with sharing("renewal waits", brokers=1) as (simulation, start):
        consumer = start()
        first, *_ = take(consumer, 3)
        while not session_of(consumer).fetching:  # behind it, the renewal waits
            consumer.poll(1)
        first.renew()
        simulation.cluster.move_leader(TP, 1)
        assert isinstance(consumer.commit()[TP], RecordLockLostError)
        assert places(take(consumer, 3)) == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("stops", [True, False])
def test_commit_tells_that_a_lock_ended_before_it_was_renewed(stops: bool) -> None:
    with sharing("ended") as (simulation, start):
        consumer = start()
        record, *_ = take(consumer, 3)
        record.renew()
        if stops:
            simulation.cluster.stop(1)
        else:
            simulation.cluster.move_leader(TP, 2)
        assert isinstance(consumer.commit()[TP], KafkaError)
        metrics = consumer.metrics()["consumer-share-fetch-manager-metrics"]
        assert metrics["locks-lost-total"] <= 3


def test_commit_says_nothing_of_automatic_renewals(caplog: pytest.LogCaptureFixture) -> None:
    with sharing("automatic") as (simulation, start):
        simulation.cluster.configure_group("g", share_renew_acknowledge_enable=False)
        consumer = start(renew="auto")
        take(consumer, 3)
        simulation.sleep(LOCK_MS * 2 // 3)
        assert "locks of orders-0 were not renewed" in caplog.text
        assert consumer.commit() == {}


def test_commit_tells_that_brokers_cannot_renew() -> None:
    with sharing("old") as (simulation, start):
        release = RELEASES["4.3"]
        versions = {**release.versions, ShareAcknowledgeRequest.API_KEY: (1, 1)}
        for broker in simulation.cluster.brokers.values():
            broker.release = replace(release, versions=versions)
        consumer = start()
        record, *_ = take(consumer, 3)
        record.renew()
        assert isinstance(consumer.commit()[TP], UnsupportedVersionError)
