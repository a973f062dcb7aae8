"""A token endpoint (OAuth 2.0) on this machine, over HTTPS."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote_plus

import trustme
from joserfc import jwt
from joserfc.jwk import RSAKey

from tandem_kafka_testing.kafka.ports import free_ports
from tests.kafka.tokens import TokenIssuer

__all__ = ["CLIENT", "SECRET", "TokenServer"]

#: Both need the encoding that RFC 6749 requires in the header.
CLIENT: Final = "reader: 1"
SECRET: Final = "s3cret+/%=of the client"


class TokenServer:
    """Issues tokens for a client with the right secret, or with a signed assertion.

    Attributes:
        requests: The forms that it received.
        lifetime_s: The lifetime of the tokens.
        response: If set, the status and the body of every response.
        fields: Additional fields of the responses.
        client_key: The public key of assertions.
    """

    def __init__(self, issuer: TokenIssuer, authority: trustme.CA) -> None:
        self.issuer = issuer
        self.requests: list[dict[str, str]] = []
        self.lifetime_s = 600.0
        self.response: tuple[int, bytes] | None = None
        self.fields: dict[str, Any] = {}
        self.client_key: RSAKey | None = None
        self.released = threading.Event()
        self.released.set()
        self._authority = authority
        # No other process takes it while the server is stopped.
        (self.port,) = free_ports(1)
        self._server: ThreadingHTTPServer | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/oauth2/token?tenant=1"

    def start(self) -> None:
        """Listen, on the same port after a stop."""
        server = ThreadingHTTPServer(("localhost", self.port), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("localhost").configure_cert(context)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Close the port; connections are then refused."""
        self.released.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, form: dict[str, str], authorization: str) -> tuple[int, bytes]:
        self.requests.append(form)
        self.released.wait(20)
        if self.response is not None:
            return self.response
        user = self._user(form, authorization)
        if user is None:
            text = f"not a known client: {form.get('assertion', '')} {authorization}"
            return 401, json.dumps({"error": "invalid_client", "error_description": text}).encode()
        token = self.issuer.issue(user, self.lifetime_s)
        fields = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}
        return 200, json.dumps(fields | self.fields).encode()

    def _user(self, form: dict[str, str], authorization: str) -> str | None:
        if form["grant_type"] == "client_credentials":
            pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            client, _, secret = pair.partition(":")
            known = (unquote_plus(client), unquote_plus(secret)) == (CLIENT, SECRET)
            return "alice" if known else None
        if self.client_key is None:
            return None
        try:
            decoded = jwt.decode(form["assertion"], self.client_key)
            jwt.JWTClaimsRegistry(aud={"essential": True, "value": self.url}).validate(
                decoded.claims
            )
        except Exception:  # noqa: BLE001 - any invalid assertion
            return None
        return str(decoded.claims["sub"])


def _handler(server: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, content = server.answer(form, self.headers.get("Authorization", ""))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", server.url)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler
