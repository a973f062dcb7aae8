"""Whether the application polls, and whether the network thread waits for a poll."""

from __future__ import annotations


class Polls:
    """State that poll() shares with the network thread without waking it.

    Attributes:
        polled_ms: When the application was last inside poll(). Writer: the application thread.
        handler_ms: How long it was outside of poll() before that. Writer: the application thread.
        event_needed: Some work waits for the application to poll, so the next poll() must send an
            event. Writer: the network thread.
    """

    __slots__ = ("event_needed", "handler_ms", "polled_ms")

    def __init__(self) -> None:
        self.polled_ms = 0
        self.handler_ms = 0
        self.event_needed = True
