"""A member as `tests.chaos.member` is one, whose records workers handle, in order by partition."""

from __future__ import annotations

import signal
import sys

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.errors import CorruptRecordError
from tandem_kafka.workers import KeyedWorkers
from tests.chaos.member import ReportingListener, options_of, report, report_read


def handle(record: ConsumerRecord) -> None:
    """Report a record."""
    report_read({TopicPartition(record.topic, record.partition): [record]})


def main(bootstrap: str, topic: str, protocol: str, _: str) -> None:
    """Handle records until SIGTERM; workers always commit by themselves."""
    consumer = KafkaConsumer(
        topic, **options_of(bootstrap, topic, protocol), enable_auto_commit=False
    )
    workers = KeyedWorkers(
        consumer,
        handle,
        order="partition",
        workers=4,
        commit_interval_ms=500,
        listener=ReportingListener(),
    )
    signal.signal(signal.SIGTERM, lambda *_: workers.stop())
    report("began")
    while True:
        try:
            workers.run()
        except CorruptRecordError as error:
            report("corrupt", str(error))  # the next run fetches damaged records again
        else:
            break
    report("closing")
    consumer.close()
    report("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
