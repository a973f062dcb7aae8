"""The tokens of a consumer: requested from the token endpoint, and reused."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tandem_kafka.config import Config
from tandem_kafka.config.token_endpoint import CLIENT_CREDENTIALS
from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import KafkaError, SaslAuthenticationFailedError, reason_of
from tandem_kafka.foreign_text import Secret, SentSecrets
from tandem_kafka.logs import client_logger
from tandem_kafka.network.oidc.assertion import assertion
from tandem_kafka.network.oidc.endpoint import TokenEndpoint, TokenRequest, basic_authorization
from tandem_kafka.runtime import Clock

log = client_logger(__name__)

#: A new token is requested after this part of the lifetime, before a broker that limits the session
#: to the lifetime requires another login. The Java client has the same default.
_REFRESH_AFTER: Final = 0.8
#: Python converts no text with thousands of digits.
_MOST_DIGITS: Final = 18
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True)
class _Kept:
    """A token, and when it must no longer be preferred or used."""

    token: Secret[str]
    refresh_ms: int
    expires_ms: int


class OidcTokens:
    """Provides tokens like a `sasl_oauth_token_provider`; `token` may block.

    Args:
        settings: The options.
        clock: The clock.

    Raises:
        KafkaConfigurationError: A file of the options cannot be used.
    """

    def __init__(self, settings: Config, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._endpoint = TokenEndpoint(
            settings.sasl_oauthbearer_token_endpoint_url or "",
            settings.sasl_oauthbearer_cafile,
            settings.socket_connection_setup_timeout_ms,
            clock,
        )
        #: Writers: `token()` (one thread at a time) and `discard()`.
        self._kept: _Kept | None = None
        self._request()  # a file that cannot be used is an error of the constructor

    def token(self) -> str:
        """Return a token that is valid now.

        Raises:
            SaslAuthenticationFailedError: The endpoint provides none.
            KafkaConfigurationError: A file of the options cannot be used.
        """
        kept = self._kept
        if kept is None or self._clock.now_ms() >= kept.refresh_ms:
            kept = self._renew(kept)
        return kept.token.reveal()

    def extensions(self) -> Mapping[str, str]:
        """Return the SASL extensions."""
        return self._settings.sasl_oauthbearer_extensions or {}

    def discard(self) -> None:
        """Request a new token next time, because the broker has rejected the present one."""
        self._kept = None

    def _renew(self, kept: _Kept | None) -> _Kept:
        try:
            self._kept = new = self._ask()
        except KafkaError as error:
            left_ms = kept.expires_ms - self._clock.now_ms() if kept is not None else 0
            if kept is None or left_ms <= 0:
                raise
            log.warning(
                "cannot renew the token, which is valid for another %.0f s: %s",
                left_ms / 1000,
                reason_of(error),
            )
            return kept
        return new

    def _ask(self) -> _Kept:
        asked_ms = self._clock.now_ms()
        fields = self._endpoint.post(self._request())
        token: Secret[Any] = Secret(fields.reveal().get("access_token"))
        if not isinstance(token.reveal(), str) or not _TOKEN.fullmatch(token.reveal()):
            raise SaslAuthenticationFailedError(
                "SASL OAUTHBEARER: the response of the token endpoint has no valid access_token"
            )
        lifetime_ms = self._lifetime_ms(fields, token)
        log.debug("received a token that is valid for %d ms", lifetime_ms)
        refresh_ms = asked_ms + int(lifetime_ms * _REFRESH_AFTER)
        return _Kept(token, refresh_ms, asked_ms + lifetime_ms)

    def _request(self) -> TokenRequest:
        settings = self._settings
        form = {"grant_type": settings.sasl_oauthbearer_grant_type}
        if settings.sasl_oauthbearer_scope is not None:
            form["scope"] = settings.sasl_oauthbearer_scope
        if settings.sasl_oauthbearer_grant_type == CLIENT_CREDENTIALS:
            secret = Secret(settings.sasl_oauthbearer_client_secret or "")
            client = settings.sasl_oauthbearer_client_id or ""
            header = basic_authorization(client, secret)
            return TokenRequest(Secret(form), header, SentSecrets(secret))
        signed = assertion(settings, self._clock.wall_ms())
        return TokenRequest(
            Secret({**form, "assertion": signed.reveal()}), None, SentSecrets(signed)
        )

    def _lifetime_ms(self, fields: Secret[dict[str, Any]], token: Secret[str]) -> int:
        """Return how long the token is valid; 0 if neither response nor token says it."""
        lifetime_s = _seconds(fields.reveal().get("expires_in"))
        if lifetime_s is not None and lifetime_s >= 0:
            return int(min(lifetime_s, 1e9) * 1000)
        expires_s = _seconds(_claims(token).reveal().get("exp"))
        if expires_s is not None:
            return max(0, int(min(expires_s, 1e11) * 1000) - self._clock.wall_ms())
        return 0


def _seconds(given: object) -> float | None:
    """Return a number that the endpoint has sent; JSON in Python also has NaN and infinity."""
    if isinstance(given, str) and given.isdecimal() and len(given) <= _MOST_DIGITS:
        given = int(given)
    return given if isinstance(given, int | float) and given > -1e11 else None


def _claims(token: Secret[str]) -> Secret[dict[str, Any]]:
    """Return the claims of a JWT, which only the broker verifies; none for another token."""
    parts = Secret(token.reveal().split("."))
    try:
        claims = Secret(json.loads(base64.urlsafe_b64decode(parts.reveal()[1] + "==")))
    except (IndexError, ValueError, RecursionError):
        return Secret({})
    return claims if isinstance(claims.reveal(), dict) else Secret({})
