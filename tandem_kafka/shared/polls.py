"""Whether the application polls, and whether the network thread waits for that."""

from __future__ import annotations

__all__ = ["Polls"]


class Polls:
    """What one poll() says to the network thread without waking it.

    Attributes:
        polled_ms: When the application was last seen inside poll(). Writer: the application thread.
        wanted: Something goes on only once the application polls again, so that the next poll()
            is to send an event. Writer: the network thread.
    """

    __slots__ = ("polled_ms", "wanted")

    def __init__(self) -> None:
        self.polled_ms = 0
        self.wanted = True
