"""Checks of the options for the token endpoint of OAUTHBEARER."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tandem_kafka.config.checks import Check, one_of

CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"

#: Names of this machine: a request to it does not leave it.
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
#: A key and a value of an extension (RFC 7628); `auth` is the token itself.
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x20-\x7E\t\r\n]+")


def _parse_endpoint_url(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError
    from urllib.parse import urlsplit  # noqa: PLC0415 - few consumers have an endpoint

    parts = urlsplit(value)
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user or password; set sasl_oauthbearer_client_id")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise ValueError("must begin with https://, because the request contains a secret")
    parts.port  # noqa: B018 - raises ValueError
    return value


def _parse_extensions(value: Any) -> Mapping[str, str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        value = {key.strip(): text.strip() for key, _, text in pairs}
    if not isinstance(value, Mapping):
        raise TypeError
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError
        if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(text):
            raise ValueError(
                f"{key!r}: a key has letters only and is not 'auth'; no value is empty"
            )
    return dict(value)


def _parse_grant_type(value: Any) -> str:
    if value in {"jwt-bearer", JWT_BEARER}:
        return JWT_BEARER
    if value is None or value == CLIENT_CREDENTIALS:
        return CLIENT_CREDENTIALS
    raise ValueError


ENDPOINT_URL: Final = Check("an https:// URL or None", _parse_endpoint_url)
EXTENSIONS: Final = Check(
    "a mapping of str to str, 'key=value,key=value' or None", _parse_extensions
)
GRANT_TYPE: Final = Check(
    f"'{CLIENT_CREDENTIALS}', 'jwt-bearer' or '{JWT_BEARER}'", _parse_grant_type
)
ALGORITHM: Final = one_of("RS256", "ES256")
