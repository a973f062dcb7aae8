"""A command's dependencies, replaceable in tests: consumers, administration clients, time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click

from tandem_kafka.config import sealed
from tandem_kafka.runtime import Clock, MonotonicClock, sleep_ms

#: How long a command tries ports that refuse connections.
_REFUSED_MS: Final = 2_000


def _consumer(**options: Any) -> Any:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.errors import KafkaTimeoutError

    options = sealed(options)
    limit_ms = options.get("bootstrap_timeout_ms", 0)
    if "api_version" in options or limit_ms <= _REFUSED_MS:
        return KafkaConsumer(**options)
    consumer = KafkaConsumer(**{**options, "bootstrap_timeout_ms": 0})
    try:
        try:
            consumer.bootstrap(_REFUSED_MS)
        except KafkaTimeoutError:
            troubles = consumer.health().troubles
            if troubles and all("refused" in each for each in troubles):
                raise  # nothing listens there: waiting does not help a person
            consumer.bootstrap(limit_ms - _REFUSED_MS)
    except BaseException:
        consumer.close(timeout_ms=0)
        raise
    return consumer


def _administration(options: Mapping[str, Any]) -> Any:
    from tandem_kafka_cli.administration import Administration

    return Administration(options)


def _producer(options: Mapping[str, Any], **more: Any) -> Any:
    from tandem_kafka_cli.administration import producer

    return producer(options, **more)


@dataclass(frozen=True)
class Environment:
    """A test replaces it, for example by a simulation with its own time.

    Attributes:
        variables: The environment variables.
        consumer: Makes a `KafkaConsumer` of options.
        administration: Makes an `Administration` of a consumer's options.
        producer: Makes a producer of a consumer's options and its own.
        clock: The time.
        sleep_ms: Waits.
    """

    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    consumer: Callable[..., Any] = _consumer
    administration: Callable[[Mapping[str, Any]], Any] = _administration
    producer: Callable[..., Any] = _producer
    clock: Clock = field(default_factory=MonotonicClock)
    sleep_ms: Callable[[float], None] = sleep_ms


def current() -> Environment:
    """Return the environment of the running command."""
    found = click.get_current_context().find_object(Environment)
    return found if found is not None else Environment()
