"""Process every record at least once: commit after processing, never before."""

from __future__ import annotations

from arguments import parse

from tandem_kafka import ConsumerRecord, KafkaConsumer


def process(record: ConsumerRecord) -> None:
    """Stand for the work."""
    print(f"{record.topic}-{record.partition} at {record.offset}: {record.value!r}")


def main() -> None:
    """Read, process, commit."""
    arguments = parse(main.__doc__ or "")
    processed = 0
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_protocol="auto",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not 0 < arguments.stop_after <= processed:
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    process(record)
                    processed += 1
            # A crash before this line has the batch processed again, never lost.
            consumer.commit_sync()
    print(f"processed {processed}")


if __name__ == "__main__":
    main()
