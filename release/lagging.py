"""`tandem-kafka lag --watch` on a group that falls behind, for `python -m release.record lag`.

A slow member falls behind, until a third one joins and takes over one of its partitions.
"""

from __future__ import annotations

import _thread
import itertools
import time
from threading import Event, Thread, Timer
from typing import Final

from tandem_kafka import KafkaConsumer, KafkaProducer
from tandem_kafka_cli.__main__ import main
from tandem_kafka_testing.kafka import RealKafka

TOPIC, GROUP, PARTITIONS = "orders", "billing", 4
PER_SECOND: Final = 200
#: Records per second that a slow member handles, and a fast one.
SLOW, FAST = 75, 400
#: When the third member joins, and the end.
JOINS_S, END_S = 10.0, 26.0


class Member(Thread):
    """A member of the group, which handles so many records per second."""

    def __init__(self, bootstrap: str, number: int, per_second: int, ended: Event) -> None:
        super().__init__()
        self._per_second = per_second
        self._ended = ended
        self._consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            client_id=f"{GROUP}-{number}",
            group_id=GROUP,
            group_protocol="classic",  # its range assignor gives a partition of billing-2 away
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
        )

    def run(self) -> None:
        """Handle records until the end."""
        with self._consumer as consumer:
            while not self._ended.is_set():
                records = consumer.poll(100, max_records=20)
                time.sleep(sum(map(len, records.values())) / self._per_second)


def _write(bootstrap: str, ended: Event) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in itertools.count():
        if ended.wait(1 / PER_SECOND):
            break
        producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    producer.close()


def watch() -> None:
    """Run the group, and the command on it."""
    ended = Event()
    with RealKafka() as kafka:
        bootstrap = kafka.bootstrap()
        kafka.admin.create_topic(TOPIC, PARTITIONS)
        members = [Member(bootstrap, 1, FAST, ended), Member(bootstrap, 2, SLOW, ended)]
        third = Member(bootstrap, 3, FAST, ended)
        writer = Thread(target=_write, args=(bootstrap, ended))
        for each in (*members, writer):
            each.start()
        time.sleep(5)  # until both are members and have committed
        command = ("lag", "-g", GROUP, "--watch", "--interval", "1s")
        print(f"$ tandem-kafka {' '.join(command)}\n", flush=True)
        timers = [Timer(JOINS_S, third.start), Timer(END_S, _thread.interrupt_main)]  # as Ctrl-C
        for timer in timers:
            timer.start()
        main([*command, "-b", bootstrap])
        ended.set()
        for each in (*timers, *members, third, writer):
            each.join()


if __name__ == "__main__":
    watch()
