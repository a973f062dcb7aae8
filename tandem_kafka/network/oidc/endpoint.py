"""Requests to the token endpoint, over HTTPS (RFC 6749)."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, quote_plus, urlencode, urlsplit

from tandem_kafka.errors import KafkaConfigurationError, SaslAuthenticationFailedError
from tandem_kafka.network.secret import Secret
from tandem_kafka.runtime import Clock

__all__ = ["TokenEndpoint", "TokenRequest", "basic_authorization"]

_LONGEST_RESPONSE: Final = 1 << 20
_SHOWN: Final = 300


def basic_authorization(client_id: str, client_secret: Secret[str]) -> Secret[str]:
    """Return the value of the header Authorization for a client (RFC 6749, section 2.3.1)."""
    return Secret(
        "Basic "
        + base64.b64encode(
            f"{quote_plus(client_id)}:{quote_plus(client_secret.reveal())}".encode()
        ).decode()
    )


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request for a token.

    Attributes:
        form: The fields of the body.
        authorization: The header Authorization, or None.
        secrets: Parts that no error message may show, even if the endpoint sends them back.
    """

    form: Secret[Mapping[str, str]]
    authorization: Secret[str] | None
    secrets: tuple[Secret[str], ...]


class TokenEndpoint:
    """Sends requests, one connection each. A redirect is an error: it would move the secret.

    Args:
        url: The URL; https, except for this machine.
        cafile: File with trusted authorities; None for those of the system.
        timeout_ms: The limit of a request.
        clock: The clock.

    Raises:
        KafkaConfigurationError: The file cannot be used.
    """

    def __init__(self, url: str, cafile: str | None, timeout_ms: int, clock: Clock) -> None:
        self._url: SplitResult = urlsplit(url)
        self._where = self._url._replace(query="").geturl()
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._cafile = cafile
        self._context()  # fail early

    def _context(self) -> ssl.SSLContext | None:
        """Return a new context, so that a changed file is used."""
        if self._url.scheme == "http":
            return None
        try:
            context = ssl.create_default_context(cafile=self._cafile)
        except (OSError, ssl.SSLError) as error:
            raise KafkaConfigurationError(
                f"sasl_oauthbearer_cafile: cannot use {self._cafile}: {error}"
            ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def post(self, request: TokenRequest) -> Secret[dict[str, Any]]:
        """Send a request; return the fields of the JSON response.

        Raises:
            SaslAuthenticationFailedError: The endpoint cannot be reached or rejects the request.
        """
        try:
            with closing(self._connect()) as connection:
                status, body = self._exchange(connection, request)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise SaslAuthenticationFailedError(
                f"SASL OAUTHBEARER: no response from the token endpoint {self._where}: {reason}"
            ) from error
        fields = _parse(body)
        if status != http.client.OK:
            raise SaslAuthenticationFailedError(
                f"SASL OAUTHBEARER: the token endpoint {self._where} responded with status "
                f"{status}{_reason(fields, request)}"
            )
        if fields is None:
            raise SaslAuthenticationFailedError(
                f"SASL OAUTHBEARER: the response of the token endpoint {self._where} is not a "
                "JSON object"
            )
        return fields

    def _connect(self) -> http.client.HTTPConnection:
        host, port, timeout_s = self._url.hostname or "", self._url.port, self._timeout_ms / 1000
        context = self._context()
        if context is None:
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)

    def _exchange(
        self, connection: http.client.HTTPConnection, request: TokenRequest
    ) -> tuple[int, Secret[bytes]]:
        deadline_ms = self._clock.now_ms() + self._timeout_ms
        target = self._url._replace(scheme="", netloc="", fragment="").geturl() or "/"
        connection.putrequest("POST", target)
        connection.putheader("Accept", "application/json")
        connection.putheader("Content-Type", "application/x-www-form-urlencoded")
        body = Secret(urlencode(request.form.reveal()).encode())
        connection.putheader("Content-Length", str(len(body.reveal())))
        if request.authorization is not None:
            connection.putheader("Authorization", request.authorization.reveal())
        connection.endheaders(body.reveal())
        with closing(connection.getresponse()) as response:
            return response.status, self._read(response, deadline_ms)

    def _read(self, response: http.client.HTTPResponse, deadline_ms: int) -> Secret[bytes]:
        body = Secret(bytearray())
        while True:
            received = len(body.reveal())
            body.reveal().extend(response.read1(65_536))
            if len(body.reveal()) == received:
                return Secret(bytes(body.reveal()))
            if len(body.reveal()) > _LONGEST_RESPONSE:
                raise http.client.HTTPException(f"more than {_LONGEST_RESPONSE} bytes")
            if self._clock.now_ms() >= deadline_ms:
                raise TimeoutError(f"incomplete after {self._timeout_ms} ms")


def _parse(body: Secret[bytes]) -> Secret[dict[str, Any]] | None:
    try:
        fields = Secret(json.loads(body.reveal()))
    except ValueError:
        return None
    return fields if isinstance(fields.reveal(), dict) else None


def _reason(fields: Secret[dict[str, Any]] | None, request: TokenRequest) -> str:
    """Return the reason of a rejection, without the secrets of the request."""
    if fields is None:
        return ""
    given = (fields.reveal().get(name) for name in ("error", "error_description"))
    text = Secret(": ".join(str(each) for each in given if each))
    for secret in request.secrets:
        text = Secret(text.reveal().replace(secret.reveal(), "<hidden>"))
    shown = text.reveal()[:_SHOWN]
    return f": {shown}" if shown else ""
