"""A FastAPI application that shows the newest order of each customer, and probes beside it.

What it shows is in memory. So it joins no group and commits nothing: each process reads the whole
topic. The reader runs in the event loop of the application. `/live` and `/ready` are served by a
thread, on a port of their own, so that they respond while the event loop is busy.

    pip install tandem-kafka fastapi uvicorn
    python fastapi_service.py
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException

from tandem_kafka import AsyncKafkaConsumer
from tandem_kafka.observability import Probe

log = logging.getLogger(__name__)
#: All tasks run in one thread, so no lock is needed.
newest: dict[str, dict[str, Any]] = {}


async def read(consumer: AsyncKafkaConsumer) -> None:
    """Keep orders until the task is cancelled."""
    # If this fails, the consumer is closed, so that `/live` fails, and the process is restarted.
    async with consumer:
        async for record in consumer:
            order = json.loads(record.value)
            newest[order["customer"]] = order


def log_failure(reading: asyncio.Task[None]) -> None:
    """Log why the task has ended; otherwise nobody would know."""
    if not reading.cancelled() and reading.exception():
        log.error("the reader has failed", exc_info=reading.exception())


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Read as long as the application runs."""
    consumer = AsyncKafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        auto_offset_reset="earliest",
    )
    with Probe(consumer, port=int(os.environ.get("PROBE_PORT", "8080"))):
        reading = asyncio.create_task(read(consumer))
        reading.add_done_callback(log_failure)
        yield
        reading.cancel()
        await asyncio.wait([reading])


app = FastAPI(lifespan=lifespan)


@app.get("/customers/{customer}")
async def show(customer: str) -> dict[str, Any]:
    """Return the newest order of a customer."""
    if customer not in newest:
        raise HTTPException(404)
    return newest[customer]


if __name__ == "__main__":
    # uvicorn handles signals while it runs, and raises them again at its end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    uvicorn.run(app, host="0.0.0.0", port=int(os.environ.get("PORT", "8000")))  # noqa: S104
