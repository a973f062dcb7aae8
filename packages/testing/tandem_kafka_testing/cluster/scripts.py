"""Responses that a test sets for the next requests of an API."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from tandem_kafka_testing.cluster.call import Handler


class Scripts:
    """The scripted responses of one cluster, by API key."""

    def __init__(self) -> None:
        self._handlers: dict[int, deque[Handler]] = defaultdict(deque)

    def add(self, api: Any, *handlers: Handler | Any) -> None:
        """Add handlers or responses; see `SimCluster.script`."""
        for handler in handlers:
            given = handler if callable(handler) else (lambda _call, response=handler: response)
            self._handlers[api.API_KEY].append(given)

    def take(self, api_key: int) -> Handler | None:
        """Return the handler of the next request, None for the broker's own."""
        queue = self._handlers.get(api_key)
        return queue.popleft() if queue else None
