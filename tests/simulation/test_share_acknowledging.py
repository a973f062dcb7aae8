"""What `commit()` tells of acknowledgements, and what is released together."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import ShareConsumer
from tandem_kafka.errors import (
    KafkaTimeoutError,
    RecordLockLostError,
)
from tests.scenarios.numbered_records import create_topic
from tests.simulation.sharing import (
    LOCK_MS,
    TP,
    places,
    session_of,
    sharing,
    take,
    take_ahead,
)


def test_commit_never_confirms_what_is_delivered_again() -> None:
    with sharing("damaged answer") as (simulation, start):
        consumer = start()
        records = take(consumer, 3)
        simulation.network.alter_response = lambda frame: frame[:10]
        for record in records:
            record.accept()
        outcome = consumer.commit()[TP]
        simulation.network.alter_response = None
        again = consumer.poll(2 * LOCK_MS)
        assert outcome is not None or not again


def test_an_acknowledgement_that_waits_when_the_leader_moves_is_told_to_be_lost() -> None:
    with sharing("waiting") as (simulation, start):
        consumer = start()
        first, *_ = take(consumer, 3)
        while not session_of(consumer).fetching:  # behind it, the acknowledgement waits
            consumer.poll(1)
        first.accept()
        simulation.cluster.move_leader(TP, 2)
        assert isinstance(consumer.commit()[TP], RecordLockLostError)


def test_a_commit_after_one_that_timed_out_tells_the_outcome() -> None:
    with sharing("timeout") as (simulation, start):
        consumer = start()
        for record in take(consumer, 3):
            record.accept()
        with pytest.raises(KafkaTimeoutError):
            consumer.commit(timeout_ms=0)
        simulation.sleep(1_000)
        assert consumer.commit() == {TP: None}


def commit_interrupted(consumer: ShareConsumer[Any, Any]) -> None:
    """Commit, and raise an interrupt once the outcome has come."""
    core, wait = consumer._core, consumer._core.wait

    async def interrupted(*args: Any, **options: Any) -> None:
        core.wait = wait  # type: ignore[method-assign]
        await wait(*args, **options)
        raise KeyboardInterrupt

    core.wait = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        consumer.commit()


def test_a_commit_after_one_that_was_interrupted_tells_the_outcome() -> None:
    """It said nothing of records that are delivered again."""
    with sharing("interrupted commit") as (simulation, start):
        consumer = start()
        for damaged in (True, False):
            take(consumer, 1)[0].accept()
            simulation.network.alter_response = (lambda frame: frame[:10]) if damaged else None
            commit_interrupted(consumer)
            simulation.network.alter_response = None
            found = consumer.commit()
            assert list(found) == [TP]
            assert (found[TP] is not None) == damaged
            assert consumer.commit() == {}


def test_unsubscribe_leaves_the_outcome_to_commit() -> None:
    with sharing("unsubscribe") as (_, start):
        consumer = start()
        for record in take(consumer, 3):
            record.accept()
        consumer.unsubscribe()
        assert consumer.commit() == {TP: None}


@pytest.mark.parametrize("other", [None, "payments"])
def test_the_end_of_a_subscription_releases_what_was_not_handed_out(other: str | None) -> None:
    """Unpacked records stayed locked until the next call."""
    with sharing("subscription", brokers=1, count=100) as (simulation, start):
        create_topic(simulation, "payments", 1)
        consumer = start("implicit")
        last, waiting = take_ahead(simulation, consumer)
        began_ms = simulation.clock.now_ms()
        if other is None:
            consumer.unsubscribe()
        else:
            consumer.subscribe([other])
        found = take(start("implicit"), 100 - last - 1)
        assert sum(each.delivery_count == 2 for each in found) == waiting
        assert simulation.clock.now_ms() - began_ms < 2_000
        assert consumer.poll(1_000) == {}


def test_records_of_the_last_call_are_released_and_not_accepted() -> None:
    """And the consumer acquires nothing until it asks for a record."""
    with sharing("release last") as (simulation, start):
        consumer = start("implicit")
        for _ in range(2):
            next(consumer)
        consumer.release_all()
        simulation.sleep(2_000)
        other = start()
        assert places(take(other, 2)) == [(1, 2), (2, 1)]
        other.release_all()
        assert places([next(consumer) for _ in range(2)]) == [(1, 3), (2, 2)]


def test_cancelled_commits_leave_one_outcome_to_tell() -> None:
    """They were all kept until one succeeded."""
    with sharing("cancelled commits", count=20) as (simulation, start):
        consumer = start()
        for number in range(20):
            take(consumer, 1)[0].accept()
            # One of them is damaged, so it fails.
            simulation.network.alter_response = (lambda frame: frame[:10]) if number == 5 else None
            commit_interrupted(consumer)
            simulation.network.alter_response = None
            assert len(consumer._parts.commits._untold) == 1
        found = consumer.commit()
        assert found[TP] is not None
        assert consumer.commit() == {}
