"""One step of a coordinator: a request or a timer goes in, responses and timers come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: An error class with its number; None for no error.
Error = Any


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """A request to a coordinator.

    Attributes:
        ticket: Identifies the sender for the caller; the coordinator does not use it.
    """

    ticket: Any = None


@dataclass(frozen=True, slots=True)
class Timer:
    """A time at which `expire` must be called; an outdated timer has no effect.

    Attributes:
        kind: What is due at that time.
        about: The id of the member.
        number: Distinguishes this timer from older ones.
    """

    when_ms: int
    kind: str
    about: str = ""
    number: int = 0


@dataclass(slots=True)
class Outcome:
    """The result of a step.

    Attributes:
        responses: Requests with their responses, in order. The requests may be older than the step.
        timers: Timers that the caller must set.
        notes: Lines for the trace.
    """

    responses: list[tuple[Request, Any]] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Step:
    """The present step; the parts of a coordinator share it.

    Attributes:
        now_ms: The time.
        outcome: The result so far.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.outcome = Outcome()

    def begin(self, now_ms: int) -> Outcome:
        """Begin a step; returns its outcome, which the step fills."""
        self.now_ms = now_ms
        self.outcome = Outcome()
        return self.outcome

    def respond(self, request: Request, response: Any) -> None:
        """Respond to a request."""
        self.outcome.responses.append((request, response))

    def set_timer(self, when_ms: int, kind: str, about: str = "", number: int = 0) -> None:
        """Set a timer."""
        self.outcome.timers.append(Timer(when_ms, kind, about, number))

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.outcome.notes.append(what)
