"""Quotas of clients: how long an answer asks them to send nothing, and who goes over what."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from tandem_kafka.testing.clock import SimClock
from tandem_kafka.wire.messages import FetchRequest

__all__ = ["Quotas"]

#: Rates are taken over that long; Kafka's default is eleven samples of one second.
WINDOW_MS: Final = 10_000


class Quotas:
    """What the clients of one broker may use; there are none unless a test sets them."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._rates: dict[str, int] = {}
        self._fetched: dict[str, deque[tuple[int, int]]] = {}
        self._set: dict[int, deque[int]] = {}

    @property
    def any(self) -> bool:
        """True once a test has set something."""
        return bool(self._rates or self._set)

    def limit_fetches(self, client_id: str, bytes_per_second: int) -> None:
        """Let a client fetch so much, on average over ten seconds.

        Who goes over it is answered without records, and asked to wait until it is within again.
        """
        self._rates[client_id] = bytes_per_second
        self._fetched[client_id] = deque()

    def throttle(self, api: Any, *times_ms: int) -> None:
        """Have the next answers of an API ask the client to wait, each for so many milliseconds.

        Args:
            api: A message class, request or response.
            *times_ms: One for each answer.
        """
        self._set.setdefault(api.API_KEY, deque()).extend(times_ms)

    def lift(self) -> None:
        """Let everybody use what it likes again."""
        self._rates.clear()
        self._fetched.clear()
        self._set.clear()

    def most_fetched(self, client_id: str) -> int | None:
        """Return how many bytes a fetch may bring without being too much by itself."""
        rate = self._rates.get(client_id)
        return None if rate is None else rate * WINDOW_MS // 1_000

    def throttle_ms(
        self, api_key: int, client_id: str, fetched_bytes: int, *, delivered: bool = False
    ) -> int:
        """Return how long the client of an answer has to wait, and count what it fetched.

        A throttled client gets nothing, so nothing counts; unless it is `delivered` all the same.
        """
        queue = self._set.get(api_key)
        set_ms = queue.popleft() if queue else 0
        if api_key != FetchRequest.API_KEY or client_id not in self._rates:
            return set_ms
        over_ms = self._over_ms(client_id, fetched_bytes)
        if delivered or not (set_ms or over_ms):
            self._fetched[client_id].append((self._clock.now_ms(), fetched_bytes))
        return max(set_ms, over_ms)

    def _over_ms(self, client_id: str, size: int) -> int:
        now_ms, fetched = self._clock.now_ms(), self._fetched[client_id]
        while fetched and fetched[0][0] <= now_ms - WINDOW_MS:
            fetched.popleft()
        allowed = self._rates[client_id] * WINDOW_MS // 1_000
        over = sum(each for _, each in fetched) + size - allowed
        return max(1, over * WINDOW_MS // allowed) if over > 0 else 0
