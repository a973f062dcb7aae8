"""asyncio: send each record to an HTTP service, many at a time but never more than a limit.

The records of a key are sent one after another, and a record is committed when the service has
accepted it.

    pip install tandem-kafka httpx
    SERVICE_URL=http://localhost:8000/orders python async_fan_out.py
"""

from __future__ import annotations

import asyncio
import os
import signal

import httpx

from tandem_kafka import AsyncKafkaConsumer, ConsumerRecord
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError
from tandem_kafka.workers import AsyncKeyedWorkers, Retry


async def main() -> None:
    """Send until Ctrl-C or SIGTERM."""
    url = os.environ.get("SERVICE_URL", "http://localhost:8000/orders")

    async def send(record: ConsumerRecord) -> None:
        response = await client.post(url, content=record.value or b"")
        response.raise_for_status()  # an exception is retried

    async with (
        httpx.AsyncClient(timeout=10) as client,
        AsyncKafkaConsumer(
            os.environ.get("TOPIC", "orders"),
            bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
            group_id=os.environ.get("GROUP", "example"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        workers = AsyncKeyedWorkers(
            consumer,
            send,
            workers=32,
            # Without a limit: nothing else can be done while the service is down.
            retry=Retry(None, backoff_ms=(100, 30_000)),
            commit_interval_ms=1_000,
        )
        try:
            await workers.run(signals=[signal.SIGTERM, signal.SIGINT])
        except (CommitFailedError, KafkaTimeoutError) as error:
            print(f"not committed at the end: {error}")  # these records are handled again


if __name__ == "__main__":
    asyncio.run(main())
