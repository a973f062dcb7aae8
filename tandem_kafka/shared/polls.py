"""Whether the application polls, and whether the network thread waits for a poll."""

from __future__ import annotations

__all__ = ["Polls"]


class Polls:
    """State that poll() shares with the network thread without waking it.

    Attributes:
        polled_ms: When the application was last inside poll(). Writer: the application thread.
        event_needed: Some work waits for the application to poll, so the next poll() must send an
            event. Writer: the network thread.
    """

    __slots__ = ("event_needed", "polled_ms")

    def __init__(self) -> None:
        self.polled_ms = 0
        self.event_needed = True
