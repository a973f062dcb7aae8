"""Processes for work that keeps a core busy: in order for each key, committed when it is done.

Threads of one Python process share a core. Run it with Python 3.11 or newer, after
`pip install tandem-kafka`:

    python examples/process_pool.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from arguments import parse

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.workers import KeyedWorkers

PROCESSES = 2


def count_divisors(records: list[ConsumerRecord]) -> None:
    """Stand for the work. A process receives the function by its name, and the records pickled."""
    for record in records:
        number = int(record.value or 0)
        divisors = sum(number % candidate == 0 for candidate in range(1, number + 1))
        print(f"{number} has {divisors} divisors", flush=True)


def last_digit(record: ConsumerRecord) -> int:
    """Return the key."""
    return int(record.value or 0) % 10


def ignore_signals() -> None:
    """Leave signals to the first process; a terminal sends Ctrl-C to all of them."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """Handle records until a signal."""
    arguments = parse(__doc__)
    # Spawned, not forked: a fork does not have the network thread of the consumer.
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(PROCESSES, context, ignore_signals) as executor,
        KafkaConsumer(
            arguments.topic,
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        # A call costs about half a millisecond, so that each one takes several records of a key.
        workers = KeyedWorkers(consumer, count_divisors, key=last_digit, workers=executor, batch=20)
        workers.run(
            until=reached(workers, arguments.stop_after),
            signals=[signal.SIGTERM, signal.SIGINT],
        )
        print(f"counted {workers.done}")


def reached(workers: KeyedWorkers, count: int) -> Callable[[], bool]:
    """Return a function that tells whether so many records are done."""
    return lambda: 0 < count <= workers.done


if __name__ == "__main__":
    main()
