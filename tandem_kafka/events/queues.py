"""The two queues between the threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from tandem_kafka.events.application import ApplicationEvent, Event
from tandem_kafka.events.background import BackgroundEvent, ErrorEvent
from tandem_kafka.logs import clean_error
from tandem_kafka.state.polls import Polls


class ApplicationEventQueue:
    """From the application thread to the network thread."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._events: deque[ApplicationEvent] = deque()
        self._wakeup = wakeup

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Event[Any]) -> None:
        """Application thread: append the event and wake the network thread."""
        # Each event is a member of the union: a test compares it with the subclasses of `Event`.
        self._events.append(cast(ApplicationEvent, event))
        self._wakeup()

    def take(self) -> ApplicationEvent | None:
        """Network thread: remove and return the oldest event."""
        return self._events.popleft() if self._events else None


class BackgroundEventQueue:
    """From the network thread to the application thread."""

    def __init__(self, polls: Polls | None = None) -> None:
        self._polls = polls if polls is not None else Polls()
        self._events: deque[BackgroundEvent] = deque()
        #: The number of events added so far. Writer: the network thread.
        self.added = 0

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: BackgroundEvent) -> None:
        """Network thread: append the event."""
        self._events.append(event)
        self.added += 1
        self._polls.request_attention()

    def add_error(self, event: ErrorEvent) -> None:
        """Network thread: append the error unless poll() will raise the same one anyway."""
        clean_error(event.error)
        waiting = [e for e in tuple(self._events) if isinstance(e, ErrorEvent)]
        if event.adds_to(waiting):
            self.add(event)

    @property
    def first(self) -> BackgroundEvent | None:
        """Application thread: the oldest event."""
        return self._events[0] if self._events else None

    def take(self) -> BackgroundEvent | None:
        """Application thread: remove and return the oldest event."""
        return self._events.popleft() if self._events else None
