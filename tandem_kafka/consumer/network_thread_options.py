"""The options for the network thread, without strong references to the user's objects.

A deserializer is often a bound method of the object that owns the consumer. If the network thread
could reach it, neither object would ever be garbage-collected. A consumer that the application has
dropped would keep its thread and its connections forever.

Invariant: of the user's code, the network thread keeps only assignors, which it has called on
another thread (`request_managers.user_code`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

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
    from tandem_kafka.consumer.weak_provider import WeakTokenProvider  # noqa: PLC0415 - few have one

    try:
        return WeakTokenProvider(provider)
    except TypeError:  # its class has __slots__ without __weakref__
        return provider
