"""When records of a share group are accepted because their application goes on."""

from __future__ import annotations

from tandem_kafka.shared.locked_records import GATHERED_MS
from tandem_kafka.wire.messages import ShareAcknowledgeRequest
from tests.simulation.test_share_groups import (
    LOCK_MS,
    TP,
    counted,
    places,
    sharing,
    take,
    take_ahead,
)
from tests.simulation.test_share_waiting import metric


def test_a_loop_accepts_before_a_slow_record_what_it_has_handled() -> None:
    """What took less than 5 ms was kept until the next call, and its locks ended."""
    with sharing("quick, then slow", brokers=1, count=400) as (simulation, start):
        consumer = start("implicit")
        records = consumer._parts.records
        while records.waiting() < 8:
            last = next(consumer).offset
            simulation.sleep(1)
        for _ in range(4):
            last = next(consumer).offset
        simulation.sleep(100)
        assert metric(consumer, "records-accepted-total") == last
        simulation.sleep(2 * LOCK_MS)
        assert metric(consumer, "locks-lost-total") == 1, "the slow one"
        assert consumer.commit().keys() <= {TP}


def test_an_exception_releases_the_last_of_quick_records_and_accepts_the_others() -> None:
    with sharing("exception", brokers=1, count=400) as (simulation, start):
        consumer = start("implicit")
        while consumer._parts.records.waiting() < 8:
            next(consumer)
            simulation.sleep(1)
        for _ in range(4):
            last = next(consumer).offset
        consumer.__exit__(ValueError, ValueError(), None)
        found = take(start(), 400 - last)
        assert places(found)[0] == (last, 2)


def test_a_loop_sends_its_acceptances_together() -> None:
    with sharing("together", brokers=1, count=2_000) as (simulation, start):
        consumer = start("implicit")
        take_ahead(simulation, consumer)
        began_ms, before = simulation.clock.now_ms(), counted(simulation, ShareAcknowledgeRequest)
        for _ in range(1_000):
            next(consumer)
            simulation.sleep(1)
        sent = counted(simulation, ShareAcknowledgeRequest) - before
        assert sent <= (simulation.clock.now_ms() - began_ms) // GATHERED_MS
