"""A handler slower than the session timeout keeps its membership.

The network thread sends the heartbeats while the handler runs. Run it with Python 3.11 or newer,
after `pip install tandem-kafka`:

    python examples/slow_handler.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import time

from arguments import parse
from stopping import Stop

from tandem_kafka import KafkaConsumer

SESSION_TIMEOUT_MS = 6_000
HANDLER_SECONDS = 1.5 * SESSION_TIMEOUT_MS / 1_000


def main() -> None:
    """Take one record at a time and work on it for longer than the session timeout."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    processed = 0
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        # The coordinator removes a member that sends no heartbeat for this time.
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=1_000,
        # The member leaves if poll() is not called for this time.
        max_poll_interval_ms=60_000,
        max_poll_records=1,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        generation = None
        while not stop.due(processed):
            batch = consumer.poll(timeout_ms=1_000)
            if not batch:
                continue
            member = consumer.group_metadata()
            if generation not in (None, member.generation_id):
                raise SystemExit("the group rebalanced: the membership was lost")
            generation = member.generation_id
            time.sleep(HANDLER_SECONDS)  # the work
            processed += batch.count
            consumer.commit_sync()
            print(f"worked {HANDLER_SECONDS:.0f} s, still generation {generation}", flush=True)
    print(f"processed {processed}")


if __name__ == "__main__":
    main()
