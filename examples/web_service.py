"""A web service that shows what it has read: the consumer in one thread, requests in others.

Run it with Python 3.11 or newer, after `pip install tandem-kafka`. `/` shows totals, `/health` says
whether records are still being read:

    python examples/web_service.py --bootstrap localhost:9092 --topic numbers --port 8000
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from arguments import parser
from stopping import Stop

from tandem_kafka import KafkaConsumer

#: The service is unhealthy if poll() was not called for this time.
HEALTHY_SECONDS = 60.0


class Totals:
    """Records per partition. One thread writes, threads that answer requests read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._polled = time.monotonic()

    def add(self, counts: dict[str, int]) -> None:
        """Add the counts of a batch."""
        with self._lock:
            self._polled = time.monotonic()
            for partition, count in counts.items():
                self._counts[partition] = self._counts.get(partition, 0) + count

    @property
    def counts(self) -> dict[str, int]:
        """A copy of the totals."""
        with self._lock:
            return dict(self._counts)

    @property
    def healthy(self) -> bool:
        """Whether poll() was called recently."""
        with self._lock:
            return time.monotonic() - self._polled < HEALTHY_SECONDS


class Handler(BaseHTTPRequestHandler):
    """Answers GET requests."""

    totals: Totals

    def do_GET(self) -> None:
        """Show the totals, or the health."""
        if self.path == "/":
            self._answer(200, self.totals.counts)
        elif self.path == "/health":
            healthy = self.totals.healthy
            self._answer(200 if healthy else 503, {"healthy": healthy})
        else:
            self._answer(404, {"error": "not found"})

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Keep the terminal quiet."""


def main() -> None:
    """Serve in a thread, read in this one: signals arrive here."""
    options = parser(__doc__)
    options.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    arguments = options.parse_args()
    stop = Stop(arguments.stop_after)
    Handler.totals = totals = Totals()
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    read = 0
    try:
        with KafkaConsumer(
            arguments.topic,
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            auto_offset_reset="earliest",
        ) as consumer:
            while not stop.due(read):
                batch = consumer.poll(timeout_ms=1_000)
                totals.add({str(tp.partition): len(records) for tp, records in batch.items()})
                read += batch.count
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    print(f"read {read}")


if __name__ == "__main__":
    main()
