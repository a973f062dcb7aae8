"""A schema registry over HTTP whose answers tests choose, and values of its schemas."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import Any

import fastavro

__all__ = ["SCHEMA", "Registry", "encoded", "running"]

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}

_NO_SCHEMA = 404, b'{"error_code": 40403, "message": "Schema not found"}'


def encoded(number: int, framed: int | None = None) -> bytes:
    """Return an order of `SCHEMA`, behind the id of a schema if that is given."""
    buffer = io.BytesIO()
    if framed is not None:
        buffer.write(b"\0" + framed.to_bytes(4, "big"))
    order = {"id": number, "note": f"ü{number}", "raw": b"\xff", "at": 1_700_000_000_000}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(SCHEMA), order)
    return buffer.getvalue()


class Registry:
    """What a registry has.

    Attributes:
        url: Its address.
        schemas: The schemas by id: text, and the type if it is not AVRO.
        answer: A status and a body in place of every answer.
        hangs: Whether it does not answer before `released`.
        asked: Set by the first request.
        login: What requests must have as basic authentication; None for nothing.
    """

    def __init__(self) -> None:
        self.url = ""
        self.schemas: dict[int, tuple[str, str]] = {}
        self.answer: tuple[int, bytes] | None = None
        self.hangs = False
        self.released = Event()
        self.asked = Event()
        self.login: str | None = None

    def add(self, schema_id: int, schema: Any, kind: str = "AVRO") -> None:
        """Add a schema."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas[schema_id] = text, kind

    def response(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body for a request."""
        self.asked.set()
        if self.hangs:
            self.released.wait(60)
        if self.answer is not None:
            return self.answer
        schema_id = int(path.partition("?")[0].rpartition("/")[2])
        if schema_id not in self.schemas:
            return _NO_SCHEMA
        text, kind = self.schemas[schema_id]
        content = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
        return 200, json.dumps(content).encode()


@contextmanager
def running() -> Iterator[Registry]:
    """A registry that runs."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.response(self.path)
            given = self.headers.get("Authorization")
            if registry.login and given != f"Basic {b64encode(registry.login.encode()).decode()}":
                status, body = 401, b"{}"
            with suppress(BrokenPipeError):  # the client did not wait
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        registry.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
