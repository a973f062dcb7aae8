"""What the network thread is given of the options: nothing that keeps the user's objects alive.

A deserializer is often a bound method of the object that owns the consumer. Were it reachable from
the network thread, that object and its consumer would never be collected, and a consumer that was
forgotten would keep its thread and its connections for ever.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from tandem_kafka.config import Config

__all__ = ["WeakTokenProvider", "for_network_thread"]


def for_network_thread(config: Config) -> Config:
    """Return the options without the objects that only the application thread calls.

    The token provider is called by neither; it is only borrowed.
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
    except TypeError:  # its class has __slots__ without __weakref__: such objects own no consumer
        return provider


class WeakTokenProvider(AbstractTokenProvider):
    """A user's token provider, for as long as the consumer keeps it."""

    def __init__(self, provider: Any) -> None:
        super().__init__()
        self._provider = weakref.ref(provider)

    def token(self) -> Any:
        """Ask the provider."""
        return self._resolve().token()

    def extensions(self) -> Mapping[Any, Any]:
        """Ask the provider, if it has any."""
        extensions = getattr(self._resolve(), "extensions", None)
        found: Mapping[Any, Any] = {} if extensions is None else extensions()
        return found

    def _resolve(self) -> Any:
        provider = self._provider()
        if provider is None:
            msg = "the consumer was dropped, and its sasl_oauth_token_provider with it"
            raise LookupError(msg)
        return provider
