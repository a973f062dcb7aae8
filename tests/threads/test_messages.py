"""Messages that kafka-python lacks are of one class, whatever threads ask for them first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.api_header import ResponseClassRegistry

from tandem_kafka.wire import messages
from tandem_kafka.wire.framing import response_class

NAMES = ("PushTelemetryRequest", "PushTelemetryResponse")


def test_threads_that_ask_together_get_the_same_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread begins and ends while the first one defines them."""
    for name in NAMES:
        monkeypatch.setitem(vars(messages), name, None)  # so that it is as before at the end
        del vars(messages)[name]
    monkeypatch.setattr(messages, "_definitions", {})
    registry = ResponseClassRegistry._response_class_registry
    monkeypatch.setattr(ResponseClassRegistry, "_response_class_registry", dict(registry))
    found = []
    second = threading.Thread(target=lambda: found.append(messages.PushTelemetryRequest))
    real = messages.schemas_may_be_read

    @contextmanager
    def interrupted() -> Iterator[None]:
        with real():
            yield
        if second.ident is None:
            second.start()
            second.join()

    monkeypatch.setattr(messages, "schemas_may_be_read", interrupted)
    first = messages.PushTelemetryRequest
    assert found == [first]
    response_class.cache_clear()
    try:
        assert response_class(first.API_KEY, 0).mro()[1] is messages.PushTelemetryResponse
    finally:
        response_class.cache_clear()
