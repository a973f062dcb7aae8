"""Quotas of clients: their limits, and the throttle times of responses."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from tandem_kafka.wire.messages import FetchRequest
from tandem_kafka_testing.clock import SimClock

#: The period of rates; Kafka's default is eleven samples of one second.
WINDOW_MS: Final = 10_000


class Quotas:
    """The quotas of one broker's clients; tests set them."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._rates: dict[str, int] = {}
        self._fetched: dict[str, deque[tuple[int, int]]] = {}
        self._set: dict[int, deque[int]] = {}

    @property
    def any(self) -> bool:
        """True if a test has set a quota."""
        return bool(self._rates or self._set)

    def limit_fetches(self, client_id: str, bytes_per_second: int) -> None:
        """Limit the bytes that a client fetches, on average over ten seconds.

        A fetch above the limit gets a response without records, and a throttle time.
        """
        self._rates[client_id] = bytes_per_second
        self._fetched[client_id] = deque()

    def throttle(self, api: Any, *times_ms: int) -> None:
        """Set the throttle times of the next responses of an API.

        Args:
            api: A message class, request or response.
            *times_ms: One for each response.
        """
        self._set.setdefault(api.API_KEY, deque()).extend(times_ms)

    def lift(self) -> None:
        """Remove all quotas."""
        self._rates.clear()
        self._fetched.clear()
        self._set.clear()

    def most_fetched(self, client_id: str) -> int | None:
        """Return the bytes that a single fetch may return within the quota."""
        rate = self._rates.get(client_id)
        return None if rate is None else rate * WINDOW_MS // 1_000

    def throttle_ms(
        self, api_key: int, client_id: str, fetched_bytes: int, *, delivered: bool = False
    ) -> int:
        """Count the fetched bytes of a response, and return its throttle time.

        A throttled response has no records and counts nothing, unless it is `delivered` anyway.
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
