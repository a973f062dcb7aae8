"""asyncio: process every record at least once, and stop cleanly at SIGTERM.

Run it with Python 3.11 or newer, after `pip install tandem-kafka`:

    python examples/async_at_least_once.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import argparse
import asyncio

from arguments import parse
from stopping import Stop

from tandem_kafka import ConsumerRecord
from tandem_kafka.aio import AsyncKafkaConsumer
from tandem_kafka.errors import CommitFailedError


async def process(record: ConsumerRecord) -> None:
    """Stand for the work, such as a query to a database."""
    await asyncio.sleep(0)
    print(f"{record.topic}-{record.partition} at {record.offset}: {record.value!r}")


async def consume(arguments: argparse.Namespace) -> int:
    """Read, process, commit; returns the number of records."""
    stop = Stop(arguments.stop_after)
    processed = 0
    async with AsyncKafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_protocol="auto",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stop.due(processed):
            batch = await consumer.poll(timeout_ms=1_000)
            for records in batch.values():
                for record in records:
                    await process(record)
                    processed += 1
            if batch:
                await commit(consumer)
    return processed


async def commit(consumer: AsyncKafkaConsumer) -> None:
    """Commit what was processed. A crash before this repeats the batch and loses nothing."""
    try:
        await consumer.commit()
    except CommitFailedError as error:
        # A rebalance came first. Call poll() again: it keeps the partitions or gives them up, and
        # the records that were not committed are read again.
        print(f"not committed: {error}")


def main() -> None:
    """Run an event loop."""
    print(f"processed {asyncio.run(consume(parse(__doc__)))}")


if __name__ == "__main__":
    main()
