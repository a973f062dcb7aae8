"""A process with workers: it writes a line to a file for each record that a handler has done.

The first record of each partition takes as long as the process lives if `--hold` is given.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tandem_kafka import KafkaConsumer
from tandem_kafka.workers import KeyedWorkers
from tests.integration.group_members import options_of


def main() -> None:
    """Handle records until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--protocol", required=True)
    parser.add_argument("--file", required=True, type=Path)
    parser.add_argument("--hold", action="store_true")
    chosen = parser.parse_args()
    forever = threading.Event()
    with (
        chosen.file.open("a", encoding="ascii", buffering=1) as done,
        KafkaConsumer(
            chosen.topic,
            bootstrap_servers=chosen.bootstrap,
            group_id=f"group-{chosen.topic}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=20,
            **options_of(chosen.protocol),
        ) as consumer,
    ):

        def handle(record: Any) -> None:
            if chosen.hold and record.offset == 0:
                forever.wait()
            time.sleep(0.03)
            done.write(f"{record.partition} {record.offset}\n")

        workers = KeyedWorkers(
            consumer, handle, workers=8, commit_interval_ms=200, drain_timeout_ms=5_000
        )
        workers.run(signals=[signal.SIGTERM])
    sys.exit(0)


if __name__ == "__main__":
    main()
