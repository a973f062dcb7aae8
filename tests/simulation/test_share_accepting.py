"""When records of a share group are accepted because their application goes on."""

from __future__ import annotations

import os

import pytest

from tandem_kafka.errors import ForkedConsumerError
from tandem_kafka.state.locked_records import GATHERED_MS
from tandem_kafka.wire.messages import ShareAcknowledgeRequest
from tests.scenarios.numbered_records import produce
from tests.simulation.sharing import (
    LOCK_MS,
    TP,
    counted,
    metric,
    places,
    session_of,
    sharing,
    take,
    take_ahead,
)


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


def test_a_loop_that_has_waited_accepts_before_a_slow_record_what_it_has_handled() -> None:
    """The network thread had looked before the feed began, and knew nothing of it."""
    with sharing("waited, then slow", brokers=1, count=20) as (simulation, start):
        consumer = start("implicit", consumer_timeout_ms=LOCK_MS)
        for _ in range(20):
            next(consumer)
        simulation.after(3_000, lambda: produce(simulation, TP, 400))
        sizes = []
        for _ in range(300):
            last = next(consumer).offset
            sizes.append(len(consumer._parts.handing._fed.feed))
        assert sizes[-1] > 20
        simulation.sleep(100)
        assert metric(consumer, "records-accepted-total") == last


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


def test_commit_accepts_all_but_the_last_record() -> None:
    with sharing("flush") as (_, start):
        consumer = start("implicit", max_poll_records=1)
        for _ in range(3):  # within the time in which acceptances are collected
            take(consumer, 1)
        assert consumer.commit() == {TP: None}
        consumer.__exit__(ValueError, ValueError(), None)
        assert places(take(start(), 1)) == [(2, 2)]


def test_close_accepts_the_last_records_wherever_their_run_begins() -> None:
    """Of records with two delivery counts, only those with the first one were accepted."""
    with sharing("two runs", brokers=1) as (simulation, start):
        first = start()
        again, *others = take(first, 3)
        again.release()
        for record in others:
            record.accept()
        first.close()
        produce(simulation, TP, 2)
        consumer = start("implicit", max_poll_records=2)
        assert places(take(consumer, 2)) == [(0, 2), (3, 1)]
        consumer.close()
        assert places(take(start(), 1)) == [(4, 1)]


def test_what_is_acknowledged_is_remembered_no_longer() -> None:
    with sharing("remembered", brokers=1) as (_, start):
        consumer = start()
        records = take(consumer, 3)
        records[0].accept()
        assert consumer.commit() == {TP: None}
        consumer.poll(1_000)
        assert session_of(consumer).locked
        for record in records[1:]:
            record.accept()
        assert consumer.commit() == {TP: None}
        consumer.poll(1_000)
        assert session_of(consumer).locked == []


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork()")
def test_a_fork_gets_no_record_that_is_at_hand() -> None:
    with sharing("fork", brokers=1, count=400) as (simulation, start):
        consumer = start("implicit")
        while consumer._parts.records.waiting() < 8:
            next(consumer)
            simulation.sleep(1)
        next(consumer)
        child = os.fork()
        if not child:
            try:
                next(consumer)
            except ForkedConsumerError:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert consumer._parts.poller.fed() is not None, "it was at hand"
