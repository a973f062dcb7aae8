"""Messages that kafka-python lacks are defined once, whatever threads ask for them first."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tandem_kafka.wire import messages

#: A thread that does not wait for the first one is done by then.
ASKS_S = 0.5
NAMES = ("PushTelemetryRequest", "PushTelemetryResponse")


def test_threads_that_ask_together_get_the_same_class(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setitem(vars(messages), name, None)  # so that it is as before at the end
        del vars(messages)[name]
    found = []

    def ask() -> None:
        found.append(getattr(messages, NAMES[0]))

    second = threading.Thread(target=ask)

    def defined(_: str) -> dict[str, Any]:
        if second.ident is None:
            second.start()
            second.join(ASKS_S)
        return {name: object() for name in NAMES}

    monkeypatch.setattr(messages, "_defined", defined)
    ask()
    second.join()
    first, other = found
    assert first is other
