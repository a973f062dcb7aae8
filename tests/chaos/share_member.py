"""A member of a share group in its own process; it writes each event as a line on standard output.

The line of an acknowledgement precedes it. The end of standard input says that the faults are over:
from then on, no handler is slow and no job ends, so the backlog shrinks.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from tandem_kafka import ShareConsumer, TopicPartition
from tandem_kafka.errors import CorruptRecordError, KafkaTimeoutError, RecordLockLostError
from tandem_kafka.runtime import Random
from tandem_kafka.workers import Retry, ShareWorkers
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.chaos.member import write_line
from tests.histories.share_events import LOCK_MS, Event, Place, line_of

__all__ = ["KINDS", "Reporter"]

_POLL_MS: Final = 100
_COMMIT_MS: Final = 5_000
#: How many calls of a member are between two commits.
_COMMIT_EVERY: Final = 5

Consumer = ShareConsumer[bytes, bytes]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Reporter:
    """Reports what a member does, and knows the acknowledgements without an outcome.

    Attributes:
        ending: Whether the member is to end.
        calm: Whether the faults are over, or the member is to end.
    """

    def __init__(self) -> None:
        self.ending = threading.Event()
        self.calm = threading.Event()
        self.random = Random(time.time_ns())
        self._made: list[Place] = []

    def end(self) -> None:
        """Let the member end."""
        self.ending.set()
        self.calm.set()

    def await_calm(self) -> None:
        """Wait for the end of standard input."""
        os.read(0, 1)  # no lock of a file object is held when the interpreter ends
        self.calm.set()

    def note(self, kind: str, places: Iterable[Place]) -> None:
        """Report an event of some records."""
        found = tuple(places)
        if found:
            self.write(Event(kind, _now_ms(), found))

    def write(self, event: Event) -> None:
        """Write the line of an event."""
        write_line(line_of(event))

    def got(self, records: Iterable[Any]) -> list[Any]:
        """Report records that were handed out: how often, and when they were locked."""
        found = list(records)
        ahead_ms = time.time_ns() // 1_000_000 - _now_ms() + LOCK_MS
        places = (
            (r.partition, r.offset, r.delivery_count, r.lock_deadline_ms - ahead_ms) for r in found
        )
        self.note("got", places)
        return found

    def acknowledging(self, kind: str, records: Iterable[Any]) -> None:
        """Report what the member, or the consumer for it, is about to do."""
        places = [(record.partition, record.offset) for record in records]
        self.note(kind, places)
        if kind in {"accept", "reject"}:
            self._made += places

    def lost(self, record: Any) -> None:
        """Report that the lock had ended: nothing was acknowledged."""
        place = record.partition, record.offset
        self.note("lost", [place])
        if place in self._made:
            self._made.remove(place)

    def commit(self, consumer: Consumer) -> None:
        """Report the acknowledgements that the brokers have stored."""
        try:
            outcome = consumer.commit(_COMMIT_MS)
        except KafkaTimeoutError:
            return  # the next commit tells
        done = {tp.partition for tp, error in outcome.items() if error is None}
        self.note("stored", (place for place in self._made if place[0] in done))
        self._made = []

    def forget(self) -> None:
        """Forget the acknowledgements without an outcome."""
        self._made = []

    def read(self, call: Callable[[], Mapping[TopicPartition, Iterable[Any]]]) -> list[Any]:
        """Call poll(), and report what it returns."""
        try:
            batches = call()
        except CorruptRecordError as error:
            self.note("damaged", _damaged(error))
            return []
        return self.got(record for batch in batches.values() for record in batch)


def accept_implicitly(make: Callable[..., Consumer], reporter: Reporter) -> None:
    """Read with poll() and with next(), which accept what was handed out before."""
    given: list[Any] = []
    with make(consumer_timeout_ms=_POLL_MS) as consumer:
        for number in _until(reporter.ending):
            reporter.acknowledging("accept", given)
            singly = number // 20 % 2
            call = partial(_next, consumer) if singly else partial(consumer.poll, _POLL_MS)
            given = reporter.read(call)
            if number % (_COMMIT_EVERY * (1 + 3 * singly)) == 0:
                # It accepts all but what was handed out last, and that is reported already.
                reporter.commit(consumer)
        reporter.acknowledging("accept", given)


def decide(make: Callable[..., Consumer], reporter: Reporter) -> None:
    """Decide on each record; some handlers take longer than a lock."""
    with make(acknowledgement="explicit", renew="auto", max_poll_records=50) as consumer:
        for number in _until(reporter.ending):
            for record in reporter.read(lambda: consumer.poll(_POLL_MS)):
                kind = reporter.random.choices(
                    ["accept", "release", "reject", "renew"], [90, 6, 1, 3]
                )[0]
                if reporter.random.random() < 0.002:
                    reporter.calm.wait(1.5 * LOCK_MS / 1_000)
                reporter.acknowledging(kind, [record])
                try:
                    getattr(record, kind)()
                    if kind == "renew":
                        reporter.acknowledging("accept", [record])
                        record.accept()
                except RecordLockLostError:
                    reporter.lost(record)
            if number % _COMMIT_EVERY == 0:
                reporter.commit(consumer)


def work(make: Callable[..., Consumer], reporter: Reporter) -> None:
    """Let workers handle the records; they acknowledge by themselves."""
    # Each delivery is another object, also after a broker has forgotten that it had counted one.
    begun: dict[int, Any] = {}

    def handle(record: Any) -> None:
        if id(record) not in begun:
            begun[id(record)] = record
            reporter.got([record])
        if reporter.random.random() < 0.03:
            raise ValueError
        reporter.calm.wait(reporter.random.random() / 50)
        accept(record)

    def accept(record: Any, *_: object) -> None:
        begun.pop(id(record), None)
        reporter.acknowledging("accept", [record])

    with make(acknowledgement="explicit") as consumer:
        workers = ShareWorkers(
            consumer, handle, workers=4, retry=Retry(2, backoff_ms=(10, 50)), otherwise=accept
        )
        while not reporter.ending.is_set():
            try:
                workers.run(until=reporter.ending.is_set)
            except CorruptRecordError as error:
                reporter.note("damaged", _damaged(error))


def be_slow(make: Callable[..., Consumer], reporter: Reporter) -> None:
    """Iterate, with some handlers that take up to three locks, which are renewed."""
    given: list[Any] = []
    with make(renew="auto", consumer_timeout_ms=_POLL_MS) as consumer:
        for number in _until(reporter.ending):
            reporter.acknowledging("accept", given)
            given = reporter.read(lambda: _next(consumer))
            if given and reporter.random.random() < 0.01:
                reporter.calm.wait(reporter.random.random() * 3 * LOCK_MS / 1_000)
            if number % (4 * _COMMIT_EVERY) == 0:
                reporter.commit(consumer)
        reporter.acknowledging("accept", given)


def do_jobs(make: Callable[..., Consumer], reporter: Reporter) -> None:
    """Take a few records, and end; then begin anew, with another consumer."""
    for _ in _until(reporter.ending):
        left = reporter.random.randint(1, 3)
        with make(acknowledgement="explicit", max_poll_records=1) as consumer:
            while (left > 0 or reporter.calm.is_set()) and not reporter.ending.is_set():
                for record in reporter.read(lambda: consumer.poll(_POLL_MS)):
                    left -= 1
                    reporter.acknowledging("accept", [record])
                    try:
                        record.accept()
                    except RecordLockLostError:
                        reporter.lost(record)
            reporter.commit(consumer)
        reporter.forget()  # what this consumer could not confirm, no other confirms


def _next(consumer: Consumer) -> dict[TopicPartition, list[Any]]:
    record = next(consumer, None)
    return {} if record is None else {TopicPartition("", record.partition): [record]}


def _damaged(error: CorruptRecordError) -> list[Place]:
    if error.partition is None or error.offset is None:
        return []
    return [(error.partition.partition, error.offset, (error.next_offset or error.offset + 1) - 1)]


KINDS: Final = {
    "implicit": accept_implicitly,
    "explicit": decide,
    "workers": work,
    "slow": be_slow,
    "jobs": do_jobs,
}


def _until(ending: threading.Event) -> Iterable[int]:
    number = 0
    while not ending.is_set():
        number += 1
        yield number


def main(kind: str, bootstrap: str, topic: str) -> None:
    """Read until SIGTERM."""
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "admin",
        "sasl_plain_password": PASSWORD,
        "group_id": topic,
        "reconnect_backoff_max_ms": 1_000,
        "metadata_max_age_ms": 10_000,
        "bootstrap_timeout_ms": 60_000,
    }
    reporter = Reporter()
    signal.signal(signal.SIGTERM, lambda *_: reporter.end())
    threading.Thread(target=reporter.await_calm, daemon=True).start()
    KINDS[kind](lambda **more: ShareConsumer(topic, **options, **more), reporter)


if __name__ == "__main__":
    main(*sys.argv[1:])
