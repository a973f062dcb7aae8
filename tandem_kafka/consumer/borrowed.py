"""The options for the network thread, without strong references to the user's objects.

A deserializer is often a bound method of the object that owns the consumer. If the network thread
could reach it, neither object would ever be garbage-collected. A consumer that the application has
dropped would keep its thread and its connections forever.

Invariant: of the user's code, the network thread keeps only assignors, which it has called on
another thread (`request_managers.user_code`).
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from tandem_kafka.config import Config


def for_network_thread(config: Config) -> Config:
    """Return the options without the objects that only the application thread calls.

    The token provider is replaced by a weak reference, because logins call it.
    """
    provider = config.sasl_oauth_token_provider
    return dataclasses.replace(
        config,
        key_deserializer=None,
        value_deserializer=None,
        interceptor_classes=(),
        metric_reporters=(),
        default_offset_commit_callback=None,
        sasl_oauth_token_provider=None if provider is None else _weak_provider(provider),
    )


def _weak_provider(provider: Any) -> Any:
    try:
        return WeakTokenProvider(provider)
    except TypeError:  # its class has __slots__ without __weakref__
        return provider


class WeakTokenProvider(AbstractTokenProvider):
    """Refers to the user's token provider for as long as the consumer keeps it alive."""

    def __init__(self, provider: Any) -> None:
        super().__init__()
        self._provider = weakref.ref(provider)

    def token(self) -> Any:
        """Return the provider's token."""
        return self._resolve().token()

    def extensions(self) -> Mapping[Any, Any]:
        """Return the provider's SASL extensions, if it has any."""
        extensions = getattr(self._resolve(), "extensions", None)
        found: Mapping[Any, Any] = {} if extensions is None else extensions()
        return found

    def _resolve(self) -> Any:
        provider = self._provider()
        if provider is None:
            msg = (
                "sasl_oauth_token_provider no longer exists: the application dropped the consumer "
                "without close()"
            )
            raise LookupError(msg)
        return provider
