"""Whether the application polls, and what poll() must look at besides records."""

from __future__ import annotations


class Polls:
    """State that poll() shares with the network thread without waking it.

    Attributes:
        polled_ms: When the application was last inside poll(). Writer: the application thread.
        handler_ms: How long it was outside of poll() before that. Writer: the application thread.
        event_needed: Some work waits for the application to poll, so the next poll() must send an
            event. Writer: the network thread.
        attention: Another object whenever there is something to look at besides records: a
            caller that suspends it, `wakeup()`, a completed commit, a background event, a reporter
            that is due, the end of the network thread. While it is the object that the last
            complete look began with, poll() asks none of these questions. Writer: any thread or
            signal handler.
    """

    __slots__ = ("attention", "event_needed", "handler_ms", "polled_ms")

    #: The same as `attention`, for a `Loop`.
    count: object

    def __init__(self) -> None:
        self.polled_ms = 0
        self.handler_ms = 0
        self.event_needed = True
        self.attention = object()

    def request_attention(self) -> None:
        """Let the next or the waiting poll() look at everything.

        Invariant: called after the reason can be seen, and before the reader is woken. A reader
        takes the object first, looks then, and stores the object last. It thus sees the reason, or
        finds another object; an interrupted look is repeated.
        """
        self.attention = object()


#: The descriptor of the slot, by another name.
setattr(Polls, "count", vars(Polls)["attention"])  # noqa: B010 - mypy knows instances only
