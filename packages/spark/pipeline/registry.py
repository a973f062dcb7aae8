"""A schema registry in this process, with the paths that confluent-kafka's client uses."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["SchemaRegistry", "framed"]


def framed(number: int, payload: bytes) -> bytes:
    """Return a value like a serializer's: a byte 0, the schema id, the payload."""
    return b"\0" + number.to_bytes(4, "big") + payload


class SchemaRegistry:
    """Schemas by id and by subject; counts requests by path."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.credentials: set[str] = set()
        #: The status of all responses, if set.
        self.broken: int | None = None
        #: The "user:password" that each request must have, if set.
        self.login: str | None = None
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._respond(self, *registry._get(self.path.partition("?")[0]))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                registry._respond(self, *registry._post(self.path.partition("?")[0], body))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join(30)
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address of the registry."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema if it is new, and return its id."""
        if schema not in self._schemas:
            self._schemas.append(schema)
        number = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _get(self, path: str) -> tuple[int, dict[str, Any]]:
        self.requests[path] += 1
        match path.strip("/").split("/"):
            case ["schemas", "ids", number] if 0 < int(number) <= len(self._schemas):
                return 200, {"id": int(number), **self._schemas[int(number) - 1]}
            case ["subjects", subject, "versions", version] if subject in self._subjects:
                versions = self._subjects[subject]
                at = len(versions) if version == "latest" else int(version)
                found = versions[at - 1]
                found_schema = {"subject": subject, "version": at, "id": found}
                return 200, found_schema | self._schemas[found - 1]
            case _:
                code = 40403 if path.startswith("/schemas/ids/") else 404
        return 404, {"error_code": code, "message": "not found"}

    def _post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        match path.strip("/").split("/"):
            case ["subjects", subject, "versions"]:
                return 200, {"id": self.register(subject, body)}
            case ["subjects", subject]:
                number = self.register(subject, body)
                version = self._subjects[subject].index(number) + 1
                return 200, {"subject": subject, "version": version, "id": number} | body
            case _:
                pass
        return 404, {"error_code": 404, "message": "not found"}

    def _respond(self, to: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
        header = to.headers.get("Authorization", "").removeprefix("Basic ")
        login = base64.b64decode(header).decode()
        if login:
            self.credentials.add(login)
        if self.login not in {None, login}:
            status, body = 401, {"error_code": 401, "message": "Unauthorized"}
        if self.broken is not None:
            status, body = self.broken, {"error_code": 1, "message": "out of order"}
        text = json.dumps(body).encode()
        to.send_response(status)
        to.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        to.send_header("Content-Length", str(len(text)))
        to.end_headers()
        to.wfile.write(text)
