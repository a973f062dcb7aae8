"""Consumers without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer

Make = Callable[..., KafkaConsumer]


@pytest.fixture
def make() -> Iterator[Make]:
    """Creates consumers that do not wait for a broker; there is none at their address."""
    made: list[KafkaConsumer] = []

    def make(*topics: str, **options: Any) -> KafkaConsumer:
        defaults = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 0}
        consumer = KafkaConsumer(*topics, **{**defaults, **options})
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(autocommit=False, timeout_ms=0)


@pytest.fixture
def consumer(make: Make) -> KafkaConsumer:
    return make(group_id="group", default_api_timeout_ms=200)


@pytest.fixture
def loner(make: Make) -> KafkaConsumer:
    return make(default_api_timeout_ms=200)
