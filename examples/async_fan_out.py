"""asyncio: send each record to an HTTP service, many at a time but never more than a limit.

A batch is committed when the service has accepted all its records, so none is lost. The records of
a batch are sent in any order; `tandem_kafka.workers` keeps the order of each key. Run it with
Python 3.11 or newer, after `pip install tandem-kafka httpx`:

    python examples/async_fan_out.py --topic numbers --url http://localhost:8000/records
"""

from __future__ import annotations

import argparse
import asyncio

import httpx
from arguments import parser
from stopping import Stop

from tandem_kafka import ConsumerRecord
from tandem_kafka.aio import AsyncKafkaConsumer

#: Requests at a time.
CONCURRENCY = 32
ATTEMPTS = 5


class Service:
    """Sends records with a limited number of requests at a time."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url
        self._free = asyncio.Semaphore(CONCURRENCY)

    async def send(self, record: ConsumerRecord) -> None:
        """Send one record, and retry with a growing pause.

        Raises:
            httpx.HTTPError: The last attempt failed. The batch is not committed.
        """
        async with self._free:
            for attempt in range(ATTEMPTS):
                try:
                    response = await self._client.post(self._url, content=record.value or b"")
                    response.raise_for_status()
                except httpx.HTTPError:
                    if attempt == ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(0.1 * 2**attempt)
                else:
                    return


async def consume(arguments: argparse.Namespace) -> int:
    """Read batches, send their records, commit; returns the number of records."""
    stop = Stop(arguments.stop_after)
    sent = 0
    async with (
        httpx.AsyncClient(timeout=10) as client,
        AsyncKafkaConsumer(
            arguments.topic,
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        service = Service(client, arguments.url)
        while not stop.due(sent):
            batch = await consumer.poll(timeout_ms=1_000)
            # The first failure cancels the other requests and ends the program without a commit.
            async with asyncio.TaskGroup() as group:
                for records in batch.values():
                    for record in records:
                        group.create_task(service.send(record))
            if batch:
                await consumer.commit()
                sent += batch.count
    return sent


def main() -> None:
    """Run an event loop."""
    options = parser(__doc__)
    options.add_argument("--url", required=True, help="receives each value by POST")
    print(f"sent {asyncio.run(consume(options.parse_args()))}")


if __name__ == "__main__":
    main()
