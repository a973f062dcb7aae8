"""A handler slower than the session timeout: the network thread keeps the membership alive."""

from __future__ import annotations

import time

from arguments import parse

from tandem_kafka import KafkaConsumer

SESSION_TIMEOUT_MS = 6_000
HANDLER_SECONDS = 1.5 * SESSION_TIMEOUT_MS / 1_000


def main() -> None:
    """Take one record at a time and work on it for longer than the session lasts."""
    arguments = parse(main.__doc__ or "")
    processed = 0
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        # The coordinator forgets a member that it does not hear from for this long ...
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=1_000,
        # ... and this is how long the application may stay away from poll().
        max_poll_interval_ms=60_000,
        max_poll_records=1,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        generation = None
        while not 0 < arguments.stop_after <= processed:
            for records in consumer.poll(timeout_ms=1_000).values():
                member = consumer.group_metadata()
                if generation not in (None, member.generation_id):
                    raise SystemExit("the group rebalanced: the membership was lost")
                generation = member.generation_id
                time.sleep(HANDLER_SECONDS)
                processed += len(records)
                print(f"worked {HANDLER_SECONDS:.0f} s, still generation {generation}")
            consumer.commit_sync()
    print(f"processed {processed}")


if __name__ == "__main__":
    main()
