"""Tokens of a user's `sasl_oauth_token_provider`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from tandem_kafka.errors import KafkaConfigurationError


class Token(AbstractTokenProvider):
    """A token in the form that kafka-python's mechanism requires."""

    def __init__(self, token: str, extensions: Mapping[Any, Any]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        """Return the token."""
        return self._token

    def extensions(self) -> Mapping[Any, Any]:
        """Return the SASL extensions."""
        return self._extensions


def request_token(provider: Any) -> Token:
    """Call the provider, which may block.

    Raises:
        KafkaConfigurationError: The provider returned an invalid value.
    """
    token = provider.token()
    if not isinstance(token, str) or not token:
        found = "an empty one" if token == "" else type(token).__name__
        raise KafkaConfigurationError(
            f"sasl_oauth_token_provider: token() must return a non-empty str, but returned {found}"
        )
    ask = getattr(provider, "extensions", None)
    extensions = {} if ask is None else ask()
    if not isinstance(extensions, Mapping):
        raise KafkaConfigurationError(
            "sasl_oauth_token_provider: extensions() must return a mapping of str to str, "
            f"but returned {type(extensions).__name__}"
        )
    return Token(token, extensions)
