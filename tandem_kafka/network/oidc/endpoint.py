"""Requests to the token endpoint, over HTTPS (RFC 6749)."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote_plus, urlencode, urlsplit

from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import KafkaConfigurationError, SaslAuthenticationFailedError
from tandem_kafka.foreign_text import Secret, SentSecrets
from tandem_kafka.network.oidc.exchange import LimitedConnection, TimeLimit
from tandem_kafka.runtime import Clock, sleep_ms

_LONGEST_RESPONSE: Final = 1 << 20
#: The request ends before the connection that waits for it (`NodeState.setup_timeout_ms`), so that
#: the error names the endpoint.
_SHARE_OF_SETUP: Final = 0.7
#: Statuses after which the same request may succeed.
_TEMPORARY: Final = frozenset({429, *range(500, 600)})
_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 1_000


def basic_authorization(client_id: str, client_secret: Secret[str]) -> Secret[str]:
    """Return the value of the header Authorization for a client (RFC 6749, section 2.3.1)."""
    return Secret(
        "Basic "
        + base64.b64encode(
            f"{quote_plus(client_id)}:{quote_plus(client_secret.reveal())}".encode()
        ).decode()
    )


@dataclass(frozen=True)
class TokenRequest:
    """A request for a token.

    Attributes:
        form: The fields of the body.
        authorization: The header Authorization, or None.
        secrets: Parts that no error message may show, even if the endpoint sends them back.
    """

    form: Secret[Mapping[str, str]]
    authorization: Secret[str] | None
    secrets: SentSecrets


class TokenEndpoint:
    """Sends requests, one connection each. A redirect is an error: it would move the secret.

    Args:
        url: The URL; https, except for this machine.
        cafile: File or folder with trusted authorities; None for those of the system.
        setup_timeout_ms: The limit of a connection that waits for the token.
        clock: The clock.

    Raises:
        KafkaConfigurationError: The file cannot be used.
    """

    def __init__(self, url: str, cafile: str | None, setup_timeout_ms: int, clock: Clock) -> None:
        self._url: SplitResult = urlsplit(url)
        self._where = self._url._replace(query="").geturl()
        self._limit_ms = int(setup_timeout_ms * _SHARE_OF_SETUP)
        self._clock = clock
        self._cafile = cafile
        self._context()  # fail early

    def _context(self) -> ssl.SSLContext | None:
        """Return a new context, so that a changed file is used."""
        if self._url.scheme == "http":
            return None
        path = self._cafile
        folder = path is not None and Path(path).is_dir()
        try:
            context = ssl.create_default_context(
                cafile=None if folder else path, capath=path if folder else None
            )
        except (OSError, ssl.SSLError) as error:
            raise KafkaConfigurationError(
                f"sasl_oauthbearer_cafile: cannot use {self._cafile}: {error}"
            ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def post(self, request: TokenRequest) -> Secret[dict[str, Any]]:
        """Send a request; return the fields of the JSON response.

        An endpoint whose servers are not ready is asked again until the limit.

        Raises:
            SaslAuthenticationFailedError: The endpoint cannot be reached or rejects the request.
        """
        limit = TimeLimit(self._clock, self._limit_ms)
        pause_ms = _FIRST_PAUSE_MS
        while True:
            status, body = self._attempt(request, limit)
            if status not in _TEMPORARY or limit.left_ms() <= pause_ms:
                break
            sleep_ms(pause_ms)
            pause_ms = min(2 * pause_ms, _LONGEST_PAUSE_MS)
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

    def _attempt(self, request: TokenRequest, limit: TimeLimit) -> tuple[int, Secret[bytes]]:
        host, port = self._url.hostname or "", self._url.port
        connection = LimitedConnection(host, port, self._context(), limit)
        try:
            return self._exchange(connection, request)
        except TimeoutError:
            reason = f"timed out after {self._limit_ms} ms"
        except (OSError, http.client.HTTPException) as error:
            # Not the cause of the new error: its text may be the endpoint's, with the secret.
            reason = request.secrets.readable(Secret(str(error) or type(error).__name__))
        finally:
            connection.shut()
        raise SaslAuthenticationFailedError(
            f"SASL OAUTHBEARER: no response from the token endpoint {self._where}: {reason}"
        )

    def _exchange(
        self, connection: LimitedConnection, request: TokenRequest
    ) -> tuple[int, Secret[bytes]]:
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
            return response.status, _read(response)


def _read(response: http.client.HTTPResponse) -> Secret[bytes]:
    body = Secret(response.read(_LONGEST_RESPONSE + 1))
    if len(body.reveal()) > _LONGEST_RESPONSE:
        raise http.client.HTTPException(f"more than {_LONGEST_RESPONSE} bytes")
    return body


def _parse(body: Secret[bytes]) -> Secret[dict[str, Any]] | None:
    try:
        fields = Secret(json.loads(body.reveal()))
    except (ValueError, RecursionError):  # the latter for 100,000 brackets
        return None
    return fields if isinstance(fields.reveal(), dict) else None


def _reason(fields: Secret[dict[str, Any]] | None, request: TokenRequest) -> str:
    """Return the reason of a rejection, without the secrets of the request."""
    if fields is None:
        return ""
    given = (fields.reveal().get(name) for name in ("error", "error_description"))
    text = Secret(": ".join(str(each) for each in given if each))
    shown = request.secrets.readable(text)
    return f": {shown}" if shown else ""
