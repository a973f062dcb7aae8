"""asyncio: a FastAPI application that reads a topic as long as it runs.

Run it with Python 3.11 or newer, after `pip install tandem-kafka fastapi uvicorn`. `/` shows
totals, `/health` says whether records are still being read:

    python examples/async_web_service.py --bootstrap localhost:9092 --topic numbers --port 8000
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from arguments import parser
from fastapi import FastAPI, Response
from stopping import Stop

from tandem_kafka.aio import AsyncKafkaConsumer

#: Records per partition. All tasks run in one thread, so no lock is needed.
totals: Counter[int] = Counter()


async def read(consumer: AsyncKafkaConsumer) -> None:
    """Count records until the task is cancelled."""
    async for record in consumer:
        totals[record.partition] += 1


def application(arguments: argparse.Namespace) -> FastAPI:
    """Return an application with a consumer in its lifespan."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncKafkaConsumer(
            arguments.topic,
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            auto_offset_reset="earliest",
        ) as consumer:
            app.state.reading = asyncio.create_task(read(consumer))
            yield
            # Cancelled where it waits: every record that it received has been counted. The end of
            # the block commits these records and leaves the group.
            app.state.reading.cancel()
            await asyncio.wait([app.state.reading])

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    async def show_totals() -> dict[str, int]:
        return {str(partition): count for partition, count in totals.items()}

    @app.get("/health")
    async def show_health(response: Response) -> dict[str, bool]:
        healthy = not app.state.reading.done()
        response.status_code = 200 if healthy else 503
        return {"healthy": healthy}

    return app


def main() -> None:
    """Serve until Ctrl-C or SIGTERM."""
    options = parser(__doc__)
    options.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    arguments = options.parse_args()
    with socket.create_server(("127.0.0.1", arguments.port)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
        server = uvicorn.Server(uvicorn.Config(application(arguments), log_level="warning"))
        Stop()  # uvicorn handles signals while it runs, and raises them again at its end
        server.run(sockets=[listening])
    print(f"read {totals.total()}")


if __name__ == "__main__":
    main()
