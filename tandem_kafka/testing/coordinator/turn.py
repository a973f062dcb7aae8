"""One turn of a coordinator: something comes in, answers and timers come out; nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Error", "Outcome", "Request", "Timer", "Turn"]

#: A class of error with its number; None for none.
Error = Any


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """What somebody asks a coordinator.

    Attributes:
        ticket: By it the caller finds who asked; the coordinator does not look at it.
    """

    ticket: Any = None


@dataclass(frozen=True, slots=True)
class Timer:
    """When a coordinator wants to be called again, by `expire`; one that is void does no harm.

    Attributes:
        kind: What is due.
        about: The id of the member.
        number: Tells this timer from an older one.
    """

    when_ms: int
    kind: str
    about: str = ""
    number: int = 0


@dataclass(slots=True)
class Outcome:
    """What came of a turn.

    Attributes:
        answers: Requests that are answered, of this turn or parked before, in their order.
        timers: What is to be arranged.
        notes: What happened, in words.
    """

    answers: list[tuple[Request, Any]] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Turn:
    """The turn that is on; the parts of a coordinator share it.

    Attributes:
        now_ms: The time.
        outcome: What has come of it so far.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.outcome = Outcome()

    def begin(self, now_ms: int) -> Outcome:
        """Begin one; returns what is filled until it ends."""
        self.now_ms = now_ms
        self.outcome = Outcome()
        return self.outcome

    def answer(self, request: Request, response: Any) -> None:
        """Answer a request."""
        self.outcome.answers.append((request, response))

    def wake(self, when_ms: int, kind: str, about: str = "", number: int = 0) -> None:
        """Have a timer arranged."""
        self.outcome.timers.append(Timer(when_ms, kind, about, number))

    def note(self, what: str) -> None:
        """Say what happened."""
        self.outcome.notes.append(what)
