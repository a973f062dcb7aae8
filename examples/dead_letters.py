"""Retry a record that fails, write it to a dead-letter topic if it keeps failing, and continue.

Run it with Python 3.11 or newer, after `pip install tandem-kafka confluent-kafka` (the producer of
dead letters). They go to the topic `<topic>.dead`:

    python examples/dead_letters.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import time
from collections import Counter

from arguments import parse
from confluent_kafka import KafkaError, Message, Producer
from stopping import Stop

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError

ATTEMPTS = 3
#: Seconds before the second attempt, then twice as many. All together they must stay below
#: `max_poll_interval_ms`, for every record of a poll().
BACKOFF_SECONDS = 0.01

attempts = Counter[int]()


def process(record: ConsumerRecord) -> None:
    """Stand for the work: some numbers fail always, some only once.

    Raises:
        ValueError: The value can never be processed.
        ConnectionError: A service is unavailable, and may be back soon.
    """
    number = int(record.value or b"")
    if number % 250 == 0:
        raise ValueError(f"{number} is a multiple of 250")
    if number % 250 == 1:
        attempts[number] += 1
        if attempts[number] == 1:
            raise ConnectionError("the service is unavailable")
        del attempts[number]


class DeadLetters:
    """Writes records that cannot be processed to a topic of their own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic = topic
        self._failure: KafkaError | None = None
        self.count = 0

    def add(self, record: ConsumerRecord, error: Exception) -> None:
        """Send a record, with its origin and its error in the headers."""
        origin = f"{record.topic}-{record.partition}@{record.offset}"
        headers = [
            *record.headers,
            ("dead-letter-source", origin.encode()),
            ("dead-letter-error", repr(error).encode()),
        ]
        self._producer.produce(
            self._topic,
            key=record.key,
            value=record.value,
            headers=headers,
            on_delivery=self._delivered,
        )
        self.count += 1
        print(f"dead letter: {origin}, {error!r}")

    def flush(self) -> None:
        """Wait until all are written. Only then their offsets may be committed.

        Raises:
            RuntimeError: The cluster did not accept one of them.
        """
        waiting = self._producer.flush(30)
        if waiting or self._failure is not None:
            raise RuntimeError(f"{self._topic}: {waiting} not written ({self._failure})")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error


def attempt(record: ConsumerRecord, dead: DeadLetters) -> None:
    """Process a record; retry transient errors."""
    for number in range(ATTEMPTS):
        try:
            process(record)
        except ConnectionError as error:
            if number + 1 == ATTEMPTS:
                dead.add(record, error)
            else:
                time.sleep(BACKOFF_SECONDS * 2**number)
        except ValueError as error:
            dead.add(record, error)  # another attempt cannot help
            return
        else:
            return


def main() -> None:
    """Read, process, commit; failures become dead letters."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    dead = DeadLetters(arguments.bootstrap, f"{arguments.topic}.dead")
    processed = 0
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stop.due(processed):
            batch = consumer.poll(timeout_ms=1_000)
            for records in batch.values():
                for record in records:
                    attempt(record, dead)
                    processed += 1
            if batch:
                dead.flush()
                try:
                    consumer.commit_sync()
                except CommitFailedError as error:
                    print(f"not committed: {error}")  # read again; a dead letter may come twice
    print(f"dead letters {dead.count}")
    print(f"processed {processed}")


if __name__ == "__main__":
    main()
