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


@pytest.fixture(autouse=True)
def undefined(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the messages be defined anew, and be as before at the end."""
    forget(monkeypatch)
    monkeypatch.setattr(messages, "definitions", {})
    response_class.cache_clear()
    yield
    response_class.cache_clear()


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setitem(vars(messages), name, None)
        del vars(messages)[name]


def test_threads_that_ask_together_get_the_same_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread begins and ends while the first one defines them."""
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
    assert response_class(first.API_KEY, 0).mro()[1] is messages.PushTelemetryResponse


def test_a_response_is_decoded_while_another_thread_defines_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kafka-python registers a class before it is complete."""
    first, found = messages.PushTelemetryRequest, []
    before = response_class(first.API_KEY, 0)
    response_class.cache_clear()
    register = ResponseClassRegistry.register_response_class

    def registering(kind: object) -> None:
        register(kind)
        found.append(response_class(first.API_KEY, 0))

    monkeypatch.setattr(ResponseClassRegistry, "register_response_class", registering)
    forget(monkeypatch)  # the other thread has begun before they were defined
    assert messages.PushTelemetryRequest is first
    assert found == [before]
