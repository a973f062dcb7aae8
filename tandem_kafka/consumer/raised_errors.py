"""Logs what `poll()` raises: an application may catch it, poll again, and tell nobody."""

from __future__ import annotations

from tandem_kafka.errors import KafkaError
from tandem_kafka.logs import ClientNames, client_logger

__all__ = ["RaisedErrors"]

log = client_logger(__name__)

#: How often an error that is raised again and again is logged.
INTERVAL_MS = 60_000
#: How many lines there may be in that time: the text of an error of the user's code may have
#: another address or number each time.
MOST_LINES = 10


class RaisedErrors:
    """The errors of `poll()` and iteration. Writer: the reader."""

    def __init__(self, client: ClientNames) -> None:
        self._client = client
        self._last: KafkaError | None = None
        self._logged_ms = self._interval_began_ms = 0
        self._count = self._lines = 0

    def note(self, error: KafkaError, now_ms: int) -> None:
        """Log an error, unless the same one, or many, were logged a short time ago."""
        self._count += 1
        if now_ms - self._interval_began_ms >= INTERVAL_MS:
            self._interval_began_ms, self._lines = now_ms, 0
        again = error == self._last and now_ms - self._logged_ms < INTERVAL_MS
        if again or self._lines >= MOST_LINES:
            return
        self._lines += 1
        log.warning(
            "poll() raises an error, one of %d since the last such line: %s",
            self._count,
            error,
            client=self._client,
        )
        self._last, self._logged_ms, self._count = error, now_ms, 0
