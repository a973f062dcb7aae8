"""Processes for work that keeps a core busy: in order for each key, committed when it is done.

pip install tandem-kafka
python process_pool.py
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError
from tandem_kafka.workers import KeyedWorkers

PROCESSES = 2


def count_divisors(records: list[ConsumerRecord]) -> None:
    """Stand for the work. A process receives the function by its name, and the records pickled."""
    for record in records:
        number = json.loads(record.value)["order"]
        divisors = sum(number % candidate == 0 for candidate in range(1, number + 1))
        print(f"{number} has {divisors} divisors", flush=True)


def obey_parent() -> None:
    """Leave signals to the first process; a terminal sends Ctrl-C to all. End if it was killed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Without this, the processes would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def main() -> None:
    """Handle records until Ctrl-C or SIGTERM."""
    # Spawned, not forked: a fork does not have the network thread of the consumer.
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(PROCESSES, context, obey_parent) as executor,
        KafkaConsumer(
            os.environ.get("TOPIC", "orders"),
            bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
            group_id=os.environ.get("GROUP", "example"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        # A call costs about half a millisecond, so that each one takes several records of a key.
        workers = KeyedWorkers(consumer, count_divisors, workers=executor, batch=20)
        try:
            workers.run(signals=[signal.SIGTERM, signal.SIGINT])
        except (CommitFailedError, KafkaTimeoutError) as error:
            print(f"not committed at the end: {error}")  # these records are handled again


if __name__ == "__main__":
    main()
