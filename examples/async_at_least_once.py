"""asyncio: process every record at least once, and finish the batch at Ctrl-C and SIGTERM.

pip install tandem-kafka
python async_at_least_once.py
"""

from __future__ import annotations

import asyncio
import os
import signal

from tandem_kafka import AsyncKafkaConsumer, ConsumerRecord
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError


async def process(record: ConsumerRecord) -> None:
    """Stand for the work, such as a query to a database."""
    await asyncio.sleep(0)
    print(f"{record.topic}-{record.partition} at {record.offset}: {record.value!r}")


async def main() -> None:
    """Read, process, commit, until Ctrl-C or SIGTERM."""
    stopping = asyncio.Event()

    def stop(number: int) -> None:
        """Let the loop finish its batch. A second signal ends the process at once."""
        stopping.set()
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    async with AsyncKafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stopping.is_set():
            for records in (await consumer.poll(timeout_ms=1_000)).values():
                for record in records:
                    await process(record)
            try:
                await consumer.commit()
            except (CommitFailedError, KafkaTimeoutError) as error:
                # The next commit covers the partitions that this member keeps. Those that it lost
                # are read again, from their last commit, by their new owner.
                print(f"not committed: {error}")


if __name__ == "__main__":
    asyncio.run(main())
