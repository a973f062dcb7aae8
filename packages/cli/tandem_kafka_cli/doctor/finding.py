"""What a step of the examination has found."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class Verdict(enum.Enum):
    """The result of a step."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Step(enum.Enum):
    """The steps, in their order."""

    OPTIONS = "options"
    NAME = "name"
    TCP = "tcp"
    TLS = "tls"
    SASL = "sasl"
    VERSIONS = "api versions"
    METADATA = "metadata"
    LISTENERS = "advertised listeners"
    COORDINATOR = "coordinator"
    TOPIC = "topic"
    GROUP = "group"
    COMMITTED = "committed offsets"
    SHARE_GROUP = "share group"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one step for one target.

    Attributes:
        step: The step.
        target: The host and port, topic or group that was examined; empty for the client itself.
        verdict: Whether it passed.
        seen: What was seen.
        advice: What to do; empty if nothing is to be done.
    """

    step: Step
    target: str
    verdict: Verdict
    seen: str
    advice: str = ""

    def as_row(self) -> dict[str, Any]:
        """Return the finding for a line of JSON."""
        return {
            "step": self.step.value,
            "target": self.target,
            "verdict": self.verdict.value,
            "seen": self.seen,
            "advice": self.advice or None,
        }


def passed(step: Step, target: str, seen: str) -> Finding:
    """Return the finding of a step without a problem."""
    return Finding(step, target, Verdict.OK, seen)


def warned(step: Step, target: str, seen: str, advice: str) -> Finding:
    """Return the finding of a step that shows a possible problem."""
    return Finding(step, target, Verdict.WARNING, seen, advice)


def failed(step: Step, target: str, seen: str, advice: str) -> Finding:
    """Return the finding of a step that must be fixed."""
    return Finding(step, target, Verdict.FAILED, seen, advice)
